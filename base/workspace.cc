#include "base/workspace.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

namespace gradwire {
namespace {

// Above what any machine addresses; also keeps the rounding below from overflowing.
constexpr int64_t kMaxBytes = int64_t{1} << 47;

// Passes over a tensor's residuals are bound by memory, and page walks are a part of that: in a
// virtual machine each of them reads two tables.
std::byte* AllocateHuge(int64_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, kHugePageBytes, static_cast<size_t>(bytes)) != 0) return nullptr;
  // What is left behind the last huge page has others. Advice: an error changes nothing.
  (void)madvise(memory, static_cast<size_t>(bytes & -kHugePageBytes), MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

std::byte* Allocate(int64_t bytes) {
  if (bytes >= 2 * kHugePageBytes) return AllocateHuge(bytes);
  return static_cast<std::byte*>(std::aligned_alloc(kBufferAlign, static_cast<size_t>(bytes)));
}

}  // namespace

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::move(other.data_)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  data_ = std::move(other.data_);
  size_ = std::exchange(other.size_, 0);
  capacity_ = std::exchange(other.capacity_, 0);
  return *this;
}

Status AlignedBuffer::EnsureBytes(int64_t bytes) {
  if (bytes < 0) {
    return Status(gwInvalidArgument, fmt::format("a buffer of {} bytes was asked for", bytes));
  }
  if (bytes > capacity_) {
    const int64_t rounded = bytes <= kMaxBytes ? AlignUp(bytes) : 0;
    std::byte* const fresh = rounded > 0 ? Allocate(rounded) : nullptr;
    if (fresh == nullptr) {
      return Status(gwSystemError, fmt::format("cannot allocate {} bytes of host memory", bytes),
                    "Use smaller tensors or fewer of them, or give the process more memory");
    }
    data_.reset(fresh);
    capacity_ = rounded;
  }
  size_ = bytes;
  return Status::Ok();
}

void AlignedBuffer::Reset() {
  data_.reset();
  size_ = 0;
  capacity_ = 0;
}

}  // namespace gradwire
