#include "runtime/recorder/recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/crc.h"
#include "base/unique_fd.h"

namespace gradwire {
namespace {

Status SystemError(const std::string& what, int error) {
  return ErrnoStatus(what, error).WithHint("Choose another folder with GRADWIRE_RECORDER_DIR");
}

// A new file of its own, readable by the user only. Never follows a link that someone laid there.
int CreateFile(const std::string& path) {
  unlink(path.c_str());
  return open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

StatusOr<std::byte*> Map(int64_t bytes, int fd, const std::string& what) {
  const int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) return SystemError("cannot map " + what, errno);
  // All page faults now: MAP_POPULATE would leave those of the first writes to Record.
  std::memset(memory, 0, static_cast<size_t>(bytes));
  return static_cast<std::byte*>(memory);
}

StatusOr<std::byte*> MapFile(int64_t bytes, const std::string& dir, const std::string& path) {
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError("cannot make the folder " + dir, errno);
  }
  const UniqueFd file(CreateFile(path));
  if (file.get() < 0) return SystemError("cannot make the recorder file " + path, errno);
  if (const int error = posix_fallocate(file.get(), 0, bytes); error != 0) {
    unlink(path.c_str());
    return SystemError("no space for the recorder file " + path, error);
  }
  StatusOr<std::byte*> memory = Map(bytes, file.get(), path);
  if (!memory.ok()) unlink(path.c_str());
  return memory;
}

void CopyText(std::string_view text, std::string_view tensor, char* out) {
  const size_t room = kRecorderTextBytes;
  const size_t first = text.copy(out, room);
  if (text.size() > room) out[room - 1] = kRecorderCut;
  if (tensor.empty() || first + 2 > room) return;
  out[first] = ' ';
  const size_t taken = std::min(tensor.size(), room - first - 1);
  tensor.copy(out + first + 1, taken, tensor.size() - taken);
  // Names differ in their last parts: "...layers.31.attention.weight".
  if (taken < tensor.size()) out[first + 1] = kRecorderCut;
}

}  // namespace

std::string RecorderFileName(uint64_t job, int rank) {
  return fmt::format("gradwire-{:016x}-{}.rec", job, rank);
}

StatusOr<std::unique_ptr<Recorder>> Recorder::Open(const RecorderOptions& options) {
  const bool power = options.capacity > 0 && (options.capacity & (options.capacity - 1)) == 0;
  if (!power || options.capacity > kMaxRecorderEntries || options.rank < 0 ||
      options.rank >= options.world_size || options.world_size > kMaxRecorderRanks) {
    return Status(gwInvalidArgument,
                  fmt::format("no recorder of {} entries for rank {} of {}", options.capacity,
                              options.rank, options.world_size));
  }
  const int64_t bytes =
      kRecorderHeaderBytes + options.capacity * static_cast<int64_t>(sizeof(RecorderEntry));
  std::string path;
  if (!options.dir.empty()) path = options.dir + "/" + RecorderFileName(options.job, options.rank);
  StatusOr<std::byte*> memory =
      path.empty() ? Map(bytes, -1, "the recorder") : MapFile(bytes, options.dir, path);
  if (!memory.ok()) return Status(memory.status()).WithRank(options.rank);
  std::unique_ptr<Recorder> recorder(new Recorder(*memory, bytes, std::move(path)));
  recorder->WriteHeader(options);
  recorder->Record({.kind = RecordKind::kOpen, .time_ns = options.start_time_ns});
  return recorder;
}

void Recorder::WriteHeader(const RecorderOptions& options) {
  mask_ = static_cast<uint64_t>(options.capacity) - 1;
  RecorderHeader header = {.capacity = static_cast<uint32_t>(options.capacity),
                           .job = options.job,
                           .rank = options.rank,
                           .world_size = options.world_size,
                           .epoch = options.epoch,
                           .pid = static_cast<uint32_t>(getpid()),
                           .start_wall_ns = options.start_wall_ns,
                           .start_time_ns = options.start_time_ns,
                           .library_version = GW_VERSION_CODE};
  const size_t length = std::min(options.host.size(), sizeof header.host);
  std::memcpy(header.host, options.host.data(), length);
  header.crc = Crc32c(&header, offsetof(RecorderHeader, crc));
  std::memcpy(memory_, &header, sizeof header);
}

Recorder::~Recorder() { munmap(memory_, static_cast<size_t>(bytes_)); }

void Recorder::Record(const RecorderEvent& event) {
  RecorderEntry entry = {.seq = next_seq_,
                         .time_ns = event.time_ns,
                         .signature = event.signature,
                         .bytes = event.bytes,
                         .step = event.step,
                         .op_seq = event.op_seq,
                         .slice = event.slice,
                         .turn = event.turn,
                         .kind = event.kind,
                         .dtype = event.dtype ? static_cast<uint8_t>(*event.dtype) : uint8_t{0xFF},
                         .peer = event.peer,
                         .status = event.status,
                         .value = event.value,
                         .progress = event.progress};
  CopyText(event.text, event.tensor, entry.text);
  entry.crc = Crc32c(&entry, offsetof(RecorderEntry, crc));

  std::byte* slot = memory_ + kRecorderHeaderBytes + ((next_seq_ - 1) & mask_) * sizeof entry;
  const std::atomic_ref<uint64_t> seq(*reinterpret_cast<uint64_t*>(slot));
  // The process may be killed between any two stores. The slot is empty first and has its number
  // last, so what is half old and half new never looks like an entry.
  seq.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(slot + sizeof entry.seq,
              reinterpret_cast<const std::byte*>(&entry) + sizeof entry.seq,
              sizeof entry - sizeof entry.seq);
  seq.store(next_seq_++, std::memory_order_release);
}

}  // namespace gradwire
