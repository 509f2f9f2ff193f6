#include "transports/ucx/ucx_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace gradwire {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "gradwire-ucx.";

// As often as others may take a new folder for a dead process's, before it is locked.
constexpr int kAttempts = 16;

constexpr char kDescriptors[] = "/proc/self/fd";

UniqueFd OpenFolder(const std::string& name) {
  return UniqueFd(open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Not of a process that lives, nor anybody else's while this one holds it.
bool Lock(const UniqueFd& folder) {
  return folder.valid() && flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
}

bool IsOwn(const UniqueFd& folder) {
  struct stat found = {};
  return folder.valid() && fstat(folder.get(), &found) == 0 && found.st_uid == geteuid();
}

void Remove(const std::string& name) {
  std::error_code ignored;  // who else is removing it has done it
  fs::remove_all(name, ignored);
}

}  // namespace

std::string UcxParentFolder() {
  const char* const set = getenv("UCX_POSIX_DIR");  // UCX's own setting
  return set == nullptr || *set == '\0' ? "/dev/shm" : set;
}

bool UcxFolder::MayHaveOwn() {
  const char* const set = getenv("UCX_POSIX_USE_PROC_LINK");
  const std::string_view links = set == nullptr ? "y" : set;
  const bool by_link =
      links.starts_with('y') || links.starts_with('Y') || links == "1" || links == "on";
  return by_link && access(kDescriptors, X_OK) == 0;
}

StatusOr<UcxFolder> UcxFolder::Make() {
  RemoveDeadUcxFolders();
  const std::string pattern = fmt::format("{}/{}{}.XXXXXX", UcxParentFolder(), kPrefix, getpid());
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string name = pattern;
    if (mkdtemp(name.data()) == nullptr) break;
    UniqueFd folder = OpenFolder(name);
    const bool locked = Lock(folder);
    const int error = errno;
    const bool taken = access(name.c_str(), F_OK) != 0 || (!locked && error == EWOULDBLOCK);
    if (locked && !taken) return UcxFolder(name, std::move(folder));
    if (!taken) Remove(name);
    errno = error;
    if (!taken) break;
  }
  return Status(gwTransportUnavailable,
                fmt::format("ucx: the folder {} cannot be made: {}", pattern, strerror(errno)),
                "UCX makes its shared memory there; name another place with UCX_POSIX_DIR, or set "
                "transport=tcp");
}

UcxFolder::~UcxFolder() {
  if (!name_.empty()) Remove(name_);
}

// By its descriptor, which can be made to mean another folder.
std::string UcxFolder::path() const { return fmt::format("{}/{}", kDescriptors, folder_.get()); }

void UcxFolder::Leave() {
  const UniqueFd parent(open(UcxParentFolder().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!parent.valid() || dup3(parent.get(), folder_.get(), O_CLOEXEC) < 0) return;
  Remove(std::exchange(name_, {}));
}

void RemoveDeadUcxFolders() {
  std::error_code error;
  fs::directory_iterator entry(UcxParentFolder(), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const fs::path& name = entry->path();
    if (!name.filename().native().starts_with(kPrefix)) continue;
    const UniqueFd folder = OpenFolder(name);
    if (IsOwn(folder) && Lock(folder)) Remove(name);
  }
}

}  // namespace gradwire
