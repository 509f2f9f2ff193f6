#include "runtime/engine/departures.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace gradwire {
namespace {

// Rank 0 serves the others no longer than this after its BYE.
constexpr int64_t kHubGoneNs = 6 * kNsPerSecond;

}  // namespace

Departures::Departures(const Options& options)
    : options_(options), left_(options.world_size), through_(options.world_size) {}

void Departures::NoteLost(int peer, Status cause, int64_t now_ns) {
  losses_.push_back({peer, std::move(cause), now_ns});
}

void Departures::HearBye(int rank) {
  left_ranks_ += left_[rank] ? 0 : 1;
  left_[rank] = through_[rank] = true;
}

bool Departures::all_through() const { return std::ranges::all_of(through_, std::identity()); }

Departures::Loss* Departures::FirstUnexplainedLoss() {
  const auto loss =
      std::ranges::find_if(losses_, [this](const Loss& lost) { return !left_[lost.peer]; });
  return loss == losses_.end() ? nullptr : &*loss;
}

bool Departures::IsOverdue(int rank, int64_t still_ns) const {
  if (!left_[rank]) return false;
  const bool nothing_comes =
      options_.within_host ||
      std::ranges::any_of(losses_, [&](const Loss& loss) { return loss.peer == rank; });
  return still_ns > (nothing_comes ? kLeftNs : std::max(kLeftNs, options_.silence_ns));
}

bool Departures::IsHubGone(int64_t still_ns) const { return left_[0] && still_ns > kHubGoneNs; }

}  // namespace gradwire
