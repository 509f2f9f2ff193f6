#include "base/rng.h"

namespace gradwire {
namespace {

uint32_t Low(uint64_t v) { return static_cast<uint32_t>(v); }
uint32_t High(uint64_t v) { return static_cast<uint32_t>(v >> 32); }

}  // namespace

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
