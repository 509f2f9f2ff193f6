#include "runtime/controller/probe_schedule.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gradwire {
namespace {

// After the warm-up: a probe in so many steps at most, and in this part of the time.
constexpr int kTurnsBetweenProbes = 20;
constexpr int64_t kProbeShare = 500;

// All but none, which needs no probe.
int64_t RungsToTry(const TensorState& tensor) { return std::ssize(tensor.automatic->ladder) - 1; }

}  // namespace

void ProbeSchedule::BeginStep(uint16_t turn) {
  turn_ = turn;
  submits_before_ = std::exchange(submits_, 0);
  if (submits_before_ > 0) largest_before_ = std::exchange(largest_, 0);
}

// Every rung that the tensor can use in turn, those first that send least: where that gains most
// the warm-up is short.
std::optional<int> ProbeSchedule::RungFor(const TensorState& tensor) const {
  const int64_t rungs = RungsToTry(tensor);
  for (int64_t i = 0; i < rungs; ++i) {
    const auto rung = static_cast<int>(rungs - (count_ + i) % rungs);
    if (tensor.CanUse(rung)) return rung;
  }
  return std::nullopt;
}

bool ProbeSchedule::IsTime(ProbePace pace, int64_t now_ns) const {
  if (turn_ == last_turn_) return false;
  if (pace == ProbePace::kEveryStep) return true;
  const auto turns = static_cast<uint16_t>(turn_ - last_turn_);
  return turns >= kTurnsBetweenProbes && now_ns >= next_ns_;
}

std::optional<ProbeTicket> ProbeSchedule::Offer(const TensorState& tensor, ProbePace pace,
                                                int64_t now_ns) {
  const std::optional<int> rung = RungFor(tensor);
  if (!rung) return std::nullopt;
  // All rungs on one tensor, then on the next of those that can be probed; but first on the
  // largest, for those of few elements tell more of calls than of codecs.
  const int64_t submit = submits_++;
  largest_ = std::max(largest_, tensor.elems);
  const int64_t round = count_ / RungsToTry(tensor);
  const bool its_turn = round == 0 ? tensor.elems >= largest_before_
                                   : submit >= round % std::max<int64_t>(submits_before_, 1);
  if (!its_turn || !IsTime(pace, now_ns)) return std::nullopt;
  return ProbeTicket{.rung = *rung, .round = round, .begin_ns = now_ns};
}

void ProbeSchedule::Take() {
  last_turn_ = turn_;
  ++count_;
}

void ProbeSchedule::Done(const ProbeTicket& ticket, int64_t now_ns) {
  next_ns_ = ticket.begin_ns + kProbeShare * (now_ns - ticket.begin_ns);
}

}  // namespace gradwire
