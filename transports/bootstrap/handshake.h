// The proof that both sides know the job's secret: HMAC-SHA256 over both hellos, nonces included.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_HANDSHAKE_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_HANDSHAKE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "base/view.h"
#include "transports/control/message.h"

namespace gradwire {

// Fills the bytes with unpredictable ones.
using Entropy = std::function<Status(Bytes)>;
// The system's generator (through libcrypto). Any thread.
Status SystemEntropy(Bytes out);

StatusOr<std::array<uint8_t, 32>> DrawNonce(const Entropy& entropy);

// Who proves: the label keeps one side's proof from being sent back as the other's.
enum class ProofRole { kGuest, kHost };  // a rank that joins; rank 0

// Over: role, and of both hellos version, world size, rank, epoch, job and nonce. Any `secret`,
// also empty. gwSystemError: libcrypto refuses, as a FIPS provider may with a short secret.
StatusOr<std::array<uint8_t, 32>> ProofTag(const std::string& secret, ProofRole role,
                                           const ControlMessage& guest_hello,
                                           const ControlMessage& host_hello);

// In a time that does not depend on where they differ.
bool SameTag(const std::array<uint8_t, 32>& a, const std::array<uint8_t, 32>& b);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_HANDSHAKE_H_
