// Owned host memory for payloads, scratch and residuals.
#ifndef GRADWIRE_BASE_WORKSPACE_H_
#define GRADWIRE_BASE_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/status.h"
#include "base/view.h"

namespace gradwire {

// A cache line, and the width of the widest SIMD register.
inline constexpr int64_t kBufferAlign = 64;
// The next multiple of it.
inline constexpr int64_t AlignUp(int64_t bytes) {
  return (bytes + kBufferAlign - 1) / kBufferAlign * kBufferAlign;
}

inline constexpr int64_t kHugePageBytes = int64_t{1} << 21;

// A block of host memory aligned to kBufferAlign. Move-only; a moved-from buffer is empty. Fresh
// memory is not initialised and not touched, so large ones cost address space only until written.
// Those that hold two huge pages are aligned to them, and the system is asked for such pages. Not
// synchronised: one thread at a time. Views are valid until the next EnsureBytes that grows, Reset,
// move or destruction.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;

  // Makes size() equal to `bytes`. Keeps the memory where it is when it is large enough; else takes
  // new memory, whose contents are undefined: nothing is copied. Never throws. gwInvalidArgument:
  // `bytes` is negative. gwSystemError: no such amount of memory. The buffer is as before after an
  // error.
  Status EnsureBytes(int64_t bytes);

  // Gives the memory back.
  void Reset();

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  int64_t size() const { return size_; }          // bytes asked for last
  int64_t capacity() const { return capacity_; }  // bytes held, a multiple of kBufferAlign

  Bytes bytes() { return {.data = data(), .size = size_}; }
  ConstBytes bytes() const { return {data(), size_}; }

  // The memory as an array of T; size() / sizeof(T) elements.
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data());
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };

  std::unique_ptr<std::byte, Free> data_;
  int64_t size_ = 0;
  int64_t capacity_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_BASE_WORKSPACE_H_
