// Where the output of a job goes: writes what its reader has room for and keeps the rest, so that
// the launcher never waits for a reader.
#ifndef GRADWIRE_CLI_LAUNCH_OUTLET_H_
#define GRADWIRE_CLI_LAUNCH_OUTLET_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace gradwire {

class Outlet {
 public:
  // `fd`: blocking or not; open as long as this.
  explicit Outlet(int fd) : fd_(fd) {}

  // Writes what there is room for and keeps the rest: whoever adds waits for waits() to be over
  // first, or keeps his text short. Dropped once writing has failed. SIGPIPE is ignored.
  void Add(std::string_view text);

  // Writes what there is room for now of what was kept.
  void Write();

  // Something is kept.
  bool waits() const { return !kept_.empty(); }

  // For poll: what is to become writable, -1 if nothing is kept.
  int awaited_fd() const { return waits() ? fd_ : -1; }

  // errno of a write that has failed, once; 0: none has.
  int TakeError() { return std::exchange(error_, 0); }

 private:
  const int fd_;
  std::string kept_;
  size_t written_ = 0;  // of what is kept
  bool failed_ = false;
  int error_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_OUTLET_H_
