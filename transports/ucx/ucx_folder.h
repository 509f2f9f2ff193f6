// The folder in which UCX makes the files of a worker's shared memory. UCX takes a file's name away
// once it has filled the file; a process that is killed before that leaves it. So a new worker gets
// a folder of its own, locked while its process lives, and others can tell and remove what a dead
// one has left.
#ifndef GRADWIRE_TRANSPORTS_UCX_UCX_FOLDER_H_
#define GRADWIRE_TRANSPORTS_UCX_UCX_FOLDER_H_

#include <string>
#include <utility>

#include "base/status.h"
#include "base/unique_fd.h"

namespace gradwire {

// Where UCX would make its files by itself: UCX_POSIX_DIR, or /dev/shm.
std::string UcxParentFolder();

class UcxFolder {
 public:
  // No: the user has set UCX_POSIX_USE_PROC_LINK=n, and peers open the files by their names, which
  // stay; or there is no /proc to name a folder by its descriptor.
  static bool MayHaveOwn();

  // New, in UcxParentFolder(), once what dead processes have left there is removed.
  // gwTransportUnavailable: it cannot be made.
  static StatusOr<UcxFolder> Make();

  UcxFolder(UcxFolder&& other) noexcept
      : name_(std::exchange(other.name_, {})), folder_(std::move(other.folder_)) {}
  UcxFolder& operator=(UcxFolder&&) = delete;
  ~UcxFolder();

  // For UCX, in this process, as long as this lives.
  std::string path() const;
  // The worker has its files. The folder goes, and path() is the one it was made in; where that
  // fails it stays until this goes.
  void Leave();

 private:
  UcxFolder(std::string name, UniqueFd folder)
      : name_(std::move(name)), folder_(std::move(folder)) {}

  std::string name_;  // empty: it is gone
  UniqueFd folder_;   // locked until then
};

// Removes what this user's processes that have died left there. Any thread.
void RemoveDeadUcxFolders();

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_UCX_UCX_FOLDER_H_
