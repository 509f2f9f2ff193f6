#include "transports/bootstrap/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/byte_stream.h"

namespace gradwire {
namespace {

// Field by field: what a later version adds to the hello does not change the proof, so that the
// difference in version is told instead of a wrong secret.
void PutHello(const ControlMessage& message, ByteWriter* out) {
  const auto* hello = message.get<HelloFields>();
  out->Put(hello->library_version, hello->world_size, hello->rank, message.epoch, message.job,
           hello->nonce);
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
  ByteWriter transcript;
  transcript.Append(TextBytes(role == ProofRole::kGuest ? "gradwire guest" : "gradwire host"));
  transcript.Put('\0');
  PutHello(guest_hello, &transcript);
  PutHello(host_hello, &transcript);
  std::array<uint8_t, 32> tag = {};
  unsigned int bytes = tag.size();
  const unsigned char* made =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(transcript.bytes().data()),
           transcript.bytes().size(), tag.data(), &bytes);
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
