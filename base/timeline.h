// Timeline: when a rank stepped, waited, encoded, decoded and communicated, as `gradwire trace`
// draws it. Made only where somebody asks for it.
#ifndef GRADWIRE_BASE_TIMELINE_H_
#define GRADWIRE_BASE_TIMELINE_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace gradwire {

// A new kind goes to the end and into NameOf.
enum class SpanKind : uint8_t {
  kStep,     // a training step of the caller; number: the step's
  kBlocked,  // the caller waits in the library, and does the engine's work meanwhile
  kEncode,   // a piece of a tensor
  kDecode,   // likewise; with what adds decoded pieces up
  kWire,     // messages are sent or awaited
};

std::string_view NameOf(SpanKind kind);

struct Span {
  SpanKind kind = SpanKind::kStep;
  int64_t begin_ns = 0, end_ns = 0;  // on the clock of the communicator
  uint64_t number = 0;
};

// Whose spans a file has.
struct TimelineOwner {
  uint64_t job = 0;
  int rank = 0, ranks = 1;
};

// Any thread at any time.
class Timeline {
 public:
  // Beyond kMaxSpans they are only counted.
  void Add(const Span& span);
  std::vector<Span> spans() const;

  // Lines of JSON, the owner's first: {"job": "00000000000000ff", "rank": 0, "ranks": 2}, then the
  // spans: {"span": "encode", "begin_ns": 1, "end_ns": 2, "number": 0}, and where some were only
  // counted how many: {"left_out": 3}. gwSystemError: `path` cannot be written.
  Status WriteTo(const std::string& path, const TimelineOwner& owner) const;

  // Some minutes of training; 32 MiB.
  static constexpr size_t kMaxSpans = 1 << 20;

 private:
  mutable std::mutex mu_;
  std::vector<Span> spans_;  // guarded by mu_
  int64_t left_out_ = 0;     // likewise
};

// The time of a scope; nothing where there is no timeline.
class ScopedSpan {
 public:
  // Both outlive this.
  ScopedSpan(Timeline* timeline, const Clock* clock, SpanKind kind)
      : timeline_(timeline), clock_(clock), kind_(kind) {
    if (timeline_ != nullptr) begin_ns_ = clock_->NowNs();
  }
  ~ScopedSpan() {
    if (timeline_ != nullptr) {
      timeline_->Add({.kind = kind_, .begin_ns = begin_ns_, .end_ns = clock_->NowNs()});
    }
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

 private:
  Timeline* const timeline_;
  const Clock* const clock_;
  const SpanKind kind_;
  int64_t begin_ns_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_BASE_TIMELINE_H_
