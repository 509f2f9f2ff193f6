// How many slices are in flight: as many as keep the slowest part of the way busy, and no more.
#ifndef GRADWIRE_RUNTIME_ENGINE_SLICE_WINDOW_H_
#define GRADWIRE_RUNTIME_ENGINE_SLICE_WINDOW_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace gradwire {

// A few are enough where links or processors limit: each further one waits behind the others, in
// caches that it needs. Over a long way most of a slice's time is latency, which others may use.
// So while slices take hardly longer than one that is alone there is room for twice as many, and
// where they take several times as long for half (as TCP Vegas compares round trips; Brakmo et al.,
// SIGCOMM 1994). Small slices count by what they are of a full one. Ranks may have different
// windows: slices are in order, and what comes early is kept. But a slice needs all ranks, so that
// none can find out by itself what a larger one would win. No allocation. One thread.
class SliceWindow {
 public:
  static constexpr int kLeast = 4, kMost = 64;

  // `fixed`: that many slices, of any length, for ever; 0: from kLeast to kMost, by what they take.
  explicit SliceWindow(int fixed);

  // Full slices.
  int size() const { return size_; }
  // Slices in flight that no rank of this setting exceeds.
  int most() const { return fixed_ ? size_ : kMost; }

  // What a slice takes of the window that is so full, from 0 to 1.
  int LoadOf(double fill) const;
  // Whether a slice of the next long all-reduce of this kind is to run alone, to measure the time
  // that it takes unloaded. Depends on the calls up to now and on nothing else, so ranks agree.
  bool WantsAlone(uint64_t kind);

  // Whether one more may begin. A "no" is remembered: there was more to send.
  bool HasRoom(int load, bool alone);
  void Begin(int load, bool alone);
  void End(int load);
  // All of them have ended.
  void Clear() { load_ = slices_ = stale_ = 0, alone_ = false; }
  // What is known of kinds, which ranks may have counted differently when a turn was aborted.
  void Forget() { kinds_ = {}, asked_ = 0; }

  // Before End: a full slice of an all-reduce took so long. None that is met by all ranks at the
  // same time can be complete before what they have sent has gone its way. Other operations may be
  // complete at once, which tells nothing.
  void NoteTime(uint64_t kind, int64_t took_ns);

 private:
  struct Kind {
    uint64_t kind = 0;
    int64_t operations = 0;
    std::array<int64_t, 4> alone_ns = {};  // that the last slices alone took, 0: unknown
    size_t next_alone = 0;                 // index in it
    uint64_t asked_last = 0;               // of asked_
  };

  Kind* Find(uint64_t kind);
  void EndBatch();
  void Resize(int size);

  const bool fixed_;
  int size_;
  int load_ = 0, slices_ = 0;  // in flight
  bool alone_ = false;         // the one in flight
  std::array<Kind, 8> kinds_;  // those seen last
  uint64_t asked_ = 0;         // times for WantsAlone
  bool had_no_room_ = false;   // in this batch
  int slow_batches_ = 0;       // in a row
  int stale_ = 0;              // slices that were in flight before the last change, at most
  int batch_ = 0;              // slices in it
  std::array<double, kMost> longer_ = {};  // than alone, of the batch
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_SLICE_WINDOW_H_
