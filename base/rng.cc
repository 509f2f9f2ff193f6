#include "base/rng.h"

#include <Random123/philox.h>

namespace gradwire {
namespace {

uint32_t Low(uint64_t v) { return static_cast<uint32_t>(v); }
uint32_t High(uint64_t v) { return static_cast<uint32_t>(v >> 32); }

}  // namespace

std::array<uint32_t, 4> Philox(const PhiloxInput& in) {
  const philox4x32_key_t key = {{in.key[0], in.key[1]}};
  const philox4x32_ctr_t counter = {{in.counter[0], in.counter[1], in.counter[2], in.counter[3]}};
  const philox4x32_ctr_t out = philox4x32_R(10, counter, key);
  return {out.v[0], out.v[1], out.v[2], out.v[3]};
}

uint64_t RandomStream::operator()() {
  const uint64_t block = next_ >> 1;
  if ((next_++ & 1) == 0) {
    words_ = Philox({.key = {Low(seed_), High(seed_)},
                     .counter = {Low(block), High(block), Low(stream_), High(stream_)}});
    return words_[0] | (static_cast<uint64_t>(words_[1]) << 32);
  }
  return words_[2] | (static_cast<uint64_t>(words_[3]) << 32);
}

}  // namespace gradwire
