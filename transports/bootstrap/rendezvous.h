// What both sides of the rendezvous share. The exchange between rank 0 (host) and each other rank
// (guest):
//
//   guest                                host
//   HELLO  version, n, rank, nonce  ->
//                                   <-   HELLO  the same of rank 0
//   PROOF  HMAC                     ->
//                                   <-   PROOF  HMAC, how long it still waits     (or BYE
//                                   unauthenticated)
//   ROSTER the guest's blob         ->
//                                   <-   ROSTER settings and all blobs            (or BYE and the
//                                   reason)
//   READY                           ->
//                                   <-   READY  once all have said so
//
// The guest proves first, so a stranger learns nothing but rank 0's hello. Differences in version
// or world size are judged after both proofs, by each side for itself: strangers cannot fail a job.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_RENDEZVOUS_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_RENDEZVOUS_H_

#include <cstdint>
#include <string>

#include "base/status.h"
#include "transports/bootstrap/handshake.h"
#include "transports/control/message.h"

namespace gradwire {

// "0.1.0" of a version code as in GW_VERSION_CODE.
std::string VersionText(uint32_t version_code);

struct RendezvousIdentity {
  int rank = 0;
  int world_size = 1;
  uint64_t job = 0;
  std::string secret;
  uint32_t library_version = GW_VERSION_CODE;
};

// Draws a fresh nonce.
StatusOr<ControlMessage> MakeHello(const RendezvousIdentity& me, const Entropy& entropy);

// The first thing two hellos disagree about: version, then world size. `mine` is this side's.
Status CompareHellos(const ControlMessage& mine, const ControlMessage& theirs);
Status JobMismatch(const ControlMessage& mine, const ControlMessage& theirs);

// The error of a rank that cannot work with the others, as all of them read it.
Status Unready(const Status& why, int rank);

// `why` as another rank read it, for `rank` to read: whose error it is now. Where those two differ
// in a field, the peer is the other.
Status AsTold(const Status& why, int rank);

// A BYE that refuses; without a body where the other side has not been proven yet.
std::string EncodeRefusal(const RendezvousIdentity& me, const Status& why, bool with_body);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_RENDEZVOUS_H_
