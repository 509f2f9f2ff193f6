// Views: pointer and length that travel together. A view never owns; who makes one says until when
// it holds.
#ifndef GRADWIRE_BASE_VIEW_H_
#define GRADWIRE_BASE_VIEW_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace gradwire {

enum class MemoryKind : uint8_t { kHost, kPinned, kCuda };

inline constexpr int16_t kNoDevice = -1;

// Raw memory, `size` in bytes.
struct Bytes {
  std::byte* data = nullptr;
  int64_t size = 0;
  MemoryKind memory = MemoryKind::kHost;
  int16_t device = kNoDevice;

  bool empty() const { return size == 0; }
  Bytes Sub(int64_t offset, int64_t bytes) const { return {data + offset, bytes, memory, device}; }
};

struct ConstBytes {
  const std::byte* data = nullptr;
  int64_t size = 0;
  MemoryKind memory = MemoryKind::kHost;
  int16_t device = kNoDevice;

  ConstBytes() = default;
  ConstBytes(const std::byte* d, int64_t s, MemoryKind m = MemoryKind::kHost,
             int16_t dev = kNoDevice)
      : data(d), size(s), memory(m), device(dev) {}
  ConstBytes(const Bytes& b)  // NOLINT(google-explicit-constructor): a reader may always look at
                              // writable memory
      : data(b.data), size(b.size), memory(b.memory), device(b.device) {}

  bool empty() const { return size == 0; }
  ConstBytes Sub(int64_t offset, int64_t bytes) const {
    return {data + offset, bytes, memory, device};
  }
};

// An array of `elems` elements of `dtype`, contiguous, aligned to its element.
struct View {
  std::byte* data = nullptr;
  int64_t elems = 0;
  DType dtype = DType::kFloat32;
  MemoryKind memory = MemoryKind::kHost;
  int16_t device = kNoDevice;

  bool empty() const { return elems == 0; }
  int64_t bytes() const { return elems * SizeOf(dtype); }
  View Sub(int64_t first, int64_t count) const {
    return {data + first * SizeOf(dtype), count, dtype, memory, device};
  }
  Bytes AsBytes() const { return {data, bytes(), memory, device}; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

struct ConstView {
  const std::byte* data = nullptr;
  int64_t elems = 0;
  DType dtype = DType::kFloat32;
  MemoryKind memory = MemoryKind::kHost;
  int16_t device = kNoDevice;

  ConstView() = default;
  ConstView(const std::byte* d, int64_t n, DType t, MemoryKind m = MemoryKind::kHost,
            int16_t dev = kNoDevice)
      : data(d), elems(n), dtype(t), memory(m), device(dev) {}
  ConstView(const View& v)  // NOLINT(google-explicit-constructor): as above
      : data(v.data), elems(v.elems), dtype(v.dtype), memory(v.memory), device(v.device) {}

  bool empty() const { return elems == 0; }
  int64_t bytes() const { return elems * SizeOf(dtype); }
  ConstView Sub(int64_t first, int64_t count) const {
    return {data + first * SizeOf(dtype), count, dtype, memory, device};
  }
  ConstBytes AsBytes() const { return {data, bytes(), memory, device}; }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
};

// Views of a float array, for the common case.
inline View FloatView(float* data, int64_t elems) {
  return {reinterpret_cast<std::byte*>(data), elems, DType::kFloat32};
}
inline ConstView FloatView(const float* data, int64_t elems) {
  return {reinterpret_cast<const std::byte*>(data), elems, DType::kFloat32};
}

}  // namespace gradwire

#endif  // GRADWIRE_BASE_VIEW_H_
