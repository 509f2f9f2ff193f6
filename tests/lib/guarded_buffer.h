// Memory whose last byte lies before an inaccessible page, so that a byte too far is a crash, and
// whose bytes before the first one are watched.
#ifndef GRADWIRE_TESTS_LIB_GUARDED_BUFFER_H_
#define GRADWIRE_TESTS_LIB_GUARDED_BUFFER_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace gradwire {

// Alignment follows from the size: the end lies on a page. Not copyable. Mapped pages are kept for
// the next buffer of their size, because mapping costs more than most tests do.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(int64_t bytes)
      : bytes_(bytes), mapped_((bytes + kSlack + kPage - 1) / kPage * kPage + kPage) {
    std::vector<std::byte*>& kept = Kept()[mapped_];
    if (kept.empty()) kept.push_back(Map(mapped_));
    base_ = kept.back();
    kept.pop_back();
    std::memset(base_, kCanary, static_cast<size_t>(data() - base_));
    std::memset(data(), kFill, static_cast<size_t>(bytes));
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { Kept()[mapped_].push_back(base_); }

  std::byte* data() const { return base_ + mapped_ - kPage - bytes_; }
  int64_t size() const { return bytes_; }

  // False where something wrote before data().
  bool intact() const {
    // There are some: kSlack. Each equals the one behind it, which memcmp finds out many at a time.
    return *base_ == std::byte{kCanary} &&
           std::memcmp(base_, base_ + 1, static_cast<size_t>(data() - base_ - 1)) == 0;
  }

 private:
  static constexpr int64_t kPage = 4096;
  static constexpr int64_t kSlack = 256;
  static constexpr uint8_t kCanary = 0xC5;
  static constexpr uint8_t kFill = 0xAA;

  // Regions by size.
  static std::map<int64_t, std::vector<std::byte*>>& Kept() {
    static thread_local std::map<int64_t, std::vector<std::byte*>> kept;
    return kept;
  }

  static std::byte* Map(int64_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) std::abort();
    auto* base = static_cast<std::byte*>(p);
    if (mprotect(base + bytes - kPage, kPage, PROT_NONE) != 0) std::abort();
    return base;
  }

  int64_t bytes_;
  int64_t mapped_;
  std::byte* base_ = nullptr;
};

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_LIB_GUARDED_BUFFER_H_
