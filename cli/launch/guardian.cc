#include "cli/launch/guardian.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "cli/launch/posix.h"

namespace gradwire {
namespace {

// Keeps nothing open but `notes`: neither the launcher's output, on which somebody may wait, nor
// its namespaces, nor the other end of `notes`, whose closing is what it waits for.
void LetGoOfEverythingBut(int notes) {
  dup2(notes, STDIN_FILENO);
  const int null = open("/dev/null", O_RDWR);
  dup2(null, STDOUT_FILENO);
  dup2(null, STDERR_FILENO);
  closefrom(STDERR_FILENO + 1);  // not close_range, which kernels before 5.9 do not have
}

[[noreturn]] void Watch(int notes) {
  setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_IGN);
  LetGoOfEverythingBut(notes);
  std::set<pid_t> groups;
  pid_t note = 0;
  while (RetryOnSignal([&] { return read(STDIN_FILENO, &note, sizeof note); }) == sizeof note) {
    if (note > 0) {
      groups.insert(note);
    } else {
      groups.erase(-note);
    }
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

Status Guardian::Start() {
  Pipe pipe;
  GW_RETURN_IF_ERROR(pipe.Open());
  pid_ = fork();
  if (pid_ < 0) return ErrnoStatus("cannot fork", errno);
  if (pid_ == 0) Watch(pipe.read_end.get());
  notes_ = std::move(pipe.write_end);
  return Status::Ok();
}

Guardian::~Guardian() {
  notes_.reset();
  if (pid_ > 0) RetryOnSignal([&] { return waitpid(pid_, nullptr, 0); });
}

void Guardian::NoteStarted(pid_t group) const { (void)!write(notes_.get(), &group, sizeof group); }

void Guardian::NoteEnded(pid_t group) const { NoteStarted(-group); }

}  // namespace gradwire
