#include "transports/bootstrap/rendezvous.h"

#include <fmt/format.h>

#include <utility>

namespace gradwire {

std::string VersionText(uint32_t version_code) {
  return fmt::format("{}.{}.{}", version_code / 10000, version_code / 100 % 100,
                     version_code % 100);
}

namespace {

// `detail` has our value and theirs. The text is the same on both sides: rank 0 is one of them, and
// comes first.
Status Mismatch(const ControlMessage& mine, const ControlMessage& theirs, ErrorDetail detail) {
  detail.rank = static_cast<int>(mine.get<HelloFields>()->rank);
  detail.peer = static_cast<int>(theirs.get<HelloFields>()->rank);
  detail.expected += fmt::format(" (rank {})", detail.rank);
  detail.actual += fmt::format(" (rank {})", detail.peer);
  if (detail.rank > detail.peer) std::swap(detail.expected, detail.actual);
  return Status(gwMismatch, std::move(detail));
}

}  // namespace

StatusOr<ControlMessage> MakeHello(const RendezvousIdentity& me, const Entropy& entropy) {
  const StatusOr<std::array<uint8_t, 32>> nonce = DrawNonce(entropy);
  if (!nonce.ok()) return nonce.status();
  const HelloFields hello{.library_version = me.library_version,
                          .world_size = static_cast<uint32_t>(me.world_size),
                          .rank = static_cast<uint32_t>(me.rank),
                          .nonce = *nonce};
  return ControlMessage{
      .src = static_cast<uint16_t>(me.rank), .dst = 0, .job = me.job, .fields = hello};
}

Status CompareHellos(const ControlMessage& mine, const ControlMessage& theirs) {
  const auto* a = mine.get<HelloFields>();
  const auto* b = theirs.get<HelloFields>();
  if (a->library_version != b->library_version) {
    return Mismatch(mine, theirs,
                    {.message = "ranks run different versions of gradwire",
                     .hint = "Install the same version everywhere",
                     .field = "library version",
                     .expected = VersionText(a->library_version),
                     .actual = VersionText(b->library_version)});
  }
  if (a->world_size != b->world_size) {
    return Mismatch(mine, theirs,
                    {.message = "ranks were started with different world sizes",
                     .hint = "Give every rank the same world size",
                     .field = "world size",
                     .expected = std::to_string(a->world_size),
                     .actual = std::to_string(b->world_size)});
  }
  return {};
}

Status JobMismatch(const ControlMessage& mine, const ControlMessage& theirs) {
  if (mine.job == theirs.job) return {};
  return Mismatch(mine, theirs,
                  {.message = "rank 0 at this address belongs to another job",
                   .hint = "Let every job use an address or port of its own",
                   .field = "job",
                   .expected = fmt::format("{:016x}", mine.job),
                   .actual = fmt::format("{:016x}", theirs.job)});
}

Status Unready(const Status& why, int rank) {
  ErrorDetail detail = why.detail();
  detail.message = fmt::format("rank {} is not ready: {}", rank, detail.message);
  return Status(why.code(), std::move(detail)).WithRank(rank).WithPeer(rank);
}

Status AsTold(const Status& why, int rank) {
  ErrorDetail detail = why.detail();
  if (!detail.field.empty() && detail.peer == rank) detail.peer = detail.rank;
  detail.rank = rank;
  return Status(why.code(), std::move(detail));
}

std::string EncodeRefusal(const RendezvousIdentity& me, const Status& why, bool with_body) {
  ControlMessage bye{.src = static_cast<uint16_t>(me.rank),
                     .dst = kAllRanks,
                     .job = me.job,
                     .fields = ByeFields{.code = why.code()}};
  if (with_body) bye.body = EncodeStatus(why);
  return EncodeControl(bye);
}

}  // namespace gradwire
