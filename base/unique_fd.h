// File descriptors that close themselves.
#ifndef GRADWIRE_BASE_UNIQUE_FD_H_
#define GRADWIRE_BASE_UNIQUE_FD_H_

#include <utility>

#include "base/status.h"

namespace gradwire {

// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// Both ends close-on-exec.
struct Pipe {
  UniqueFd read_end, write_end;
  Status Open();
};

}  // namespace gradwire

#endif  // GRADWIRE_BASE_UNIQUE_FD_H_
