#include "transports/bootstrap/vain_wait.h"

#include <fmt/format.h>

namespace gradwire {
namespace {

// Longer than what a link holds, and a third of what a rank that dies may go unnoticed.
constexpr int64_t kPatienceNs = kNsPerSecond;

}  // namespace

VainWait::VainWait(const Options& options)
    : options_(options), board_(LaunchBoard::Open(options.launch_board, options.world_size)) {}

Status VainWait::Check() {
  if (options_.cancelled != nullptr && options_.cancelled->load(std::memory_order_acquire)) {
    return Status(gwRevoked,
                  ErrorDetail{.message = fmt::format("rank {} gave up its start", options_.rank),
                              .rank = options_.rank});
  }
  const bool is_told = options_.rank == 0 || (board_ && board_->HasEnded(0));
  const std::optional<LaunchBoard::Ended> ended =
      board_ && is_told ? board_->FirstEnded() : std::optional<LaunchBoard::Ended>();
  if (!ended) return {};
  if (patience_.never()) patience_ = Deadline::After(*options_.clock, kPatienceNs);
  if (!patience_.Expired(*options_.clock)) return {};
  return Status(gwPeerLost, ErrorDetail{.message = fmt::format("rank {} {} before it had joined",
                                                               ended->rank, ended->how),
                                        .hint = "Its output tells why",
                                        .rank = options_.rank,
                                        .peer = ended->rank});
}

}  // namespace gradwire
