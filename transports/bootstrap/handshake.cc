#include "transports/bootstrap/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

namespace gradwire {
namespace {

template <typename T>
void Append(const T& value, std::string* out) {
  static_assert(std::has_unique_object_representations_v<T>);
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Field by field: what a later version adds to the hello does not change the proof, so that the
// difference in version is told instead of a wrong secret.
void AppendHello(const ControlMessage& message, std::string* out) {
  const auto* hello = message.get<HelloFields>();
  Append(hello->library_version, out);
  Append(hello->world_size, out);
  Append(hello->rank, out);
  Append(message.epoch, out);
  Append(message.job, out);
  Append(hello->nonce, out);
}

}  // namespace

Status SystemEntropy(Bytes out) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data), static_cast<int>(out.size)) != 1) {
    return Status(gwSystemError, "the system has no random bytes");
  }
  return {};
}

StatusOr<std::array<uint8_t, 32>> DrawNonce(const Entropy& entropy) {
  std::array<uint8_t, 32> nonce;
  GW_RETURN_IF_ERROR(entropy({reinterpret_cast<std::byte*>(nonce.data()), nonce.size()}));
  return nonce;
}

StatusOr<std::array<uint8_t, 32>> ProofTag(const std::string& secret, ProofRole role,
                                           const ControlMessage& guest_hello,
                                           const ControlMessage& host_hello) {
  std::string transcript = role == ProofRole::kGuest ? "gradwire guest" : "gradwire host";
  transcript += '\0';
  AppendHello(guest_hello, &transcript);
  AppendHello(host_hello, &transcript);
  std::array<uint8_t, 32> tag = {};
  unsigned int bytes = tag.size();
  const unsigned char* made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                   reinterpret_cast<const unsigned char*>(transcript.data()),
                                   transcript.size(), tag.data(), &bytes);
  // A tag that was not made is the same for everybody.
  if (made == nullptr || bytes != tag.size()) {
    return Status(gwSystemError, "libcrypto makes no HMAC-SHA256 of this job's secret",
                  "Take a longer secret: a FIPS provider refuses short ones");
  }
  return tag;
}

bool SameTag(const std::array<uint8_t, 32>& a, const std::array<uint8_t, 32>& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace gradwire
