#include "base/workspace.h"

#include <fmt/format.h>

#include <utility>

namespace gradwire {
namespace {

// Above what any machine addresses; also keeps the rounding below from overflowing.
constexpr int64_t kMaxBytes = int64_t{1} << 47;

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
    void* fresh = nullptr;
    const int64_t rounded = bytes <= kMaxBytes ? (bytes + kBufferAlign - 1) & -kBufferAlign : 0;
    if (rounded > 0) {
      fresh = ::operator new (static_cast<size_t>(rounded), std::align_val_t{kBufferAlign},
                              std::nothrow);
    }
    if (fresh == nullptr) {
      return Status(gwSystemError, fmt::format("cannot allocate {} bytes of host memory", bytes),
                    "Use smaller tensors or fewer of them, or give the process more memory");
    }
    data_.reset(static_cast<std::byte*>(fresh));
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
