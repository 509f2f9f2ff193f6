// For tests: ranks that write what an engine would.
#ifndef GRADWIRE_RUNTIME_RECORDER_RECORDED_WORLD_H_
#define GRADWIRE_RUNTIME_RECORDER_RECORDED_WORLD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "runtime/recorder/diagnosis.h"
#include "runtime/recorder/recorder.h"

namespace gradwire {

// Every rank's monotonic clock has another origin.
class RecordedWorld {
 public:
  explicit RecordedWorld(int world_size, int64_t capacity = 256) {
    for (int rank = 0; rank < world_size; ++rank) {
      auto recorder = Recorder::Open({.job = 0x4d2,
                                      .rank = rank,
                                      .world_size = world_size,
                                      .start_wall_ns = kEpochNs,
                                      .start_time_ns = Origin(rank),
                                      .capacity = capacity});
      recorders_.push_back(std::move(*recorder));
    }
  }

  void At(int64_t ms) { now_ns_ = ms * kMs; }
  void Record(int rank, RecorderEvent event) {
    event.time_ns = Origin(rank) + now_ns_;
    event.turn = static_cast<uint16_t>(turn_);
    recorders_[rank]->Record(event);
  }
  void RecordAll(const RecorderEvent& event) {
    for (int rank = 0; rank < size(); ++rank) Record(rank, event);
  }
  void Submit(int rank, uint32_t op, std::string tensor, uint64_t signature = 1) {
    Record(rank, {.kind = RecordKind::kSubmit,
                  .op_seq = op,
                  .bytes = 4096,
                  .dtype = DType::kFloat32,
                  .signature = signature,
                  .text = "all-reduce",
                  .tensor = tensor});
  }
  void Complete(int rank, uint32_t op, gwResult_t status = gwSuccess) {
    Record(rank, {.kind = RecordKind::kComplete, .op_seq = op, .status = status});
  }
  void End(int rank, int operations) {
    Record(rank, {.kind = RecordKind::kStepEnd, .step = 77, .value = operations});
  }
  void Result(int outcome, gwResult_t status = gwSuccess, int peer = -1) {
    RecordAll({.kind = RecordKind::kResult,
               .step = 77,
               .peer = peer,
               .status = status,
               .value = outcome});
    ++turn_;
  }
  // A turn of `ops` operations that goes well.
  void GoodTurn(uint32_t ops) {
    for (int rank = 0; rank < size(); ++rank) {
      for (uint32_t op = 0; op < ops; ++op) {
        Submit(rank, op, "w" + std::to_string(op));
        Complete(rank, op);
      }
      End(rank, static_cast<int>(ops));
    }
    Result(0);
  }
  void Lost(int rank, int peer, std::string how = "the connection broke") {
    Record(rank, {.kind = RecordKind::kPeerLost, .peer = peer, .text = how});
  }
  void Hide(int rank) { recorders_[rank].reset(); }
  void set_turn(int64_t turn) { turn_ = turn; }
  int size() const { return static_cast<int>(recorders_.size()); }

  JobRecord Merge() const {
    std::vector<RecorderLog> logs;
    for (const auto& recorder : recorders_) {
      if (recorder) logs.push_back(*ParseRecorder(recorder->memory()));
    }
    return MergeLogs(std::move(logs));
  }
  Diagnosis Diagnose() const { return gradwire::Diagnose(Merge()); }

 private:
  static constexpr int64_t kMs = 1'000'000;
  static constexpr int64_t kEpochNs = 1'700'000'000'000'000'000;

  static int64_t Origin(int rank) { return 1000 * kMs * (rank + 1); }

  std::vector<std::unique_ptr<Recorder>> recorders_;
  int64_t now_ns_ = 0;
  int64_t turn_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_RECORDER_RECORDED_WORLD_H_
