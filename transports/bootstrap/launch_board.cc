#include "transports/bootstrap/launch_board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace gradwire {
namespace {

constexpr int64_t kEntryBytes = sizeof(int32_t);

// "DESCRIPTOR:INODE".
struct Place {
  int fd = -1;
  uint64_t inode = 0;
};

std::optional<Place> ParsePlace(const std::string& text) {
  Place place;
  const char* const end = text.data() + text.size();
  const auto fd = std::from_chars(text.data(), end, place.fd);
  if (fd.ec != std::errc() || fd.ptr == end || *fd.ptr != ':') return std::nullopt;
  const auto inode = std::from_chars(fd.ptr + 1, end, place.inode);
  if (inode.ec != std::errc() || inode.ptr != end) return std::nullopt;
  return place;
}

}  // namespace

std::string HowItExited(int exit_code) { return fmt::format("ended with exit code {}", exit_code); }

std::string HowItWasKilled(int signal) {
  const char* name = sigdescr_np(signal);
  return fmt::format("was killed by signal {} ({})", signal, name == nullptr ? "unknown" : name);
}

StatusOr<LaunchBoard> LaunchBoard::Make(int ranks) {
  UniqueFd fd(memfd_create("gradwire-launch-board", 0));
  if (!fd.valid()) return ErrnoStatus("memfd_create", errno);
  if (ftruncate(fd.get(), kEntryBytes * (1 + ranks)) != 0) return ErrnoStatus("ftruncate", errno);
  return LaunchBoard(std::move(fd));
}

std::optional<LaunchBoard> LaunchBoard::Open(const std::string& text, int ranks) {
  const std::optional<Place> place = ParsePlace(text);
  if (!place) return std::nullopt;
  UniqueFd fd(fcntl(place->fd, F_DUPFD_CLOEXEC, 0));
  struct stat file {};
  if (!fd.valid() || fstat(fd.get(), &file) != 0) return std::nullopt;
  if (file.st_ino != place->inode || file.st_size != kEntryBytes * (1 + ranks)) return std::nullopt;
  return LaunchBoard(std::move(fd));
}

std::string LaunchBoard::Text() const {
  struct stat file {};
  (void)fstat(fd_.get(), &file);
  return fmt::format("{}:{}", fd_.get(), file.st_ino);
}

void LaunchBoard::NoteEnd(int rank, int32_t end) {
  Put(1 + rank, end);
  if (Get(0) == 0) Put(0, 1 + rank);
}

std::optional<LaunchBoard::Ended> LaunchBoard::FirstEnded() const {
  const int32_t first = Get(0);
  if (first == 0) return std::nullopt;
  const int32_t end = Get(first);
  return Ended{first - 1, end > 0 ? HowItExited(end - 1) : HowItWasKilled(-end)};
}

int32_t LaunchBoard::Get(int entry) const {
  int32_t value = 0;
  const bool read = pread(fd_.get(), &value, kEntryBytes, kEntryBytes * entry) == kEntryBytes;
  return read ? value : 0;
}

void LaunchBoard::Put(int entry, int32_t value) {
  // Nothing else tells the ranks; without it they wait as long as they would under any launcher.
  (void)!pwrite(fd_.get(), &value, kEntryBytes, kEntryBytes * entry);
}

}  // namespace gradwire
