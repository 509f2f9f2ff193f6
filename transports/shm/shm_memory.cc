#include "transports/shm/shm_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/clock.h"

namespace gradwire {
namespace {

static_assert(std::atomic<uint32_t>::is_always_lock_free &&
              std::atomic<uint64_t>::is_always_lock_free);

constexpr int64_t kQueuesAt = sizeof(ShmInboxHead);

// Nobody who has it open can take memory away from under the others.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

int64_t SlotStride(const ShmShape& shape) {
  return static_cast<int64_t>(sizeof(ShmSlot)) +
         (shape.fragment_bytes + kShmLine - 1) / kShmLine * kShmLine;
}

int64_t SlotsAt(const ShmShape& shape) {
  return kQueuesAt + static_cast<int64_t>(sizeof(ShmQueue)) * shape.world_size;
}

int64_t InboxBytes(const ShmShape& shape) {
  return SlotsAt(shape) + SlotStride(shape) * shape.slots * shape.world_size;
}

std::string PathOf(const ShmAddress& address) {
  return fmt::format("/proc/{}/fd/{}", address.pid, address.fd);
}

Status Unavailable(const std::string& what, int error) {
  return Status(gwTransportUnavailable, fmt::format("shm: {}: {}", what, std::strerror(error)),
                "Ranks need one user, one /proc and memory to share; set transport=tcp otherwise");
}

// 0, or errno. Beyond what the process may write to a file (ulimit -f) the system would not only
// refuse: it sends a signal that ends the process.
int Grow(int fd, int64_t bytes) {
  rlimit most = {};
  const bool is_known = getrlimit(RLIMIT_FSIZE, &most) == 0;
  if (is_known && most.rlim_cur < static_cast<rlim_t>(bytes)) return EFBIG;
  return ftruncate(fd, bytes) == 0 ? 0 : errno;
}

bool Sensible(const ShmShape& shape) {
  return shape.world_size > 0 && shape.slots > 0 && shape.fragment_bytes > 0 &&
         shape.fragment_bytes % kBufferAlign == 0;
}

}  // namespace

std::string EncodeShmAddress(const ShmAddress& address) {
  static_assert(std::is_trivially_copyable_v<ShmAddress>);
  return {reinterpret_cast<const char*>(&address), sizeof address};
}

StatusOr<ShmAddress> DecodeShmAddress(std::string_view bytes) {
  ShmAddress address;
  if (bytes.size() != sizeof address) {
    return Status(gwInvalidArgument, fmt::format("shm: an address of {} bytes", bytes.size()));
  }
  std::memcpy(&address, bytes.data(), sizeof address);
  if (address.pid <= 0 || address.fd < 0 || !Sensible(address.shape)) {
    return Status(gwInvalidArgument, "shm: an address that is none");
  }
  return address;
}

StatusOr<ShmInbox> ShmInbox::Create(const ShmShape& shape) {
  UniqueFd fd(memfd_create("gradwire", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Unavailable("no memory to share", errno);
  if (const int error = Grow(fd.get(), InboxBytes(shape)); error != 0) {
    return Unavailable(fmt::format("{} bytes to share", InboxBytes(shape)), error);
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return Unavailable("sealing its size", errno);
  StatusOr<ShmInbox> inbox = Map(std::move(fd), shape);
  if (!inbox.ok()) return inbox;
  ShmInboxHead& head = inbox->head();
  if (getrandom(head.token.words, sizeof head.token.words, 0) != sizeof head.token.words) {
    return Status(gwSystemError, "shm: the system has no random numbers");
  }
  head.shape = shape;
  // A process that may not be looked into opens its own files all the same.
  if (prctl(PR_GET_DUMPABLE) != 1) return Unavailable("this process is not dumpable", EACCES);
  // Peers will come the same way.
  StatusOr<ShmInbox> from_outside = Open(inbox->address());
  if (!from_outside.ok()) return from_outside.status();
  return inbox;
}

StatusOr<ShmInbox> ShmInbox::Open(const ShmAddress& address) {
  const std::string path = PathOf(address);
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return Unavailable("opening " + path, errno);
  struct stat file = {};
  // Access behind the end of a file would be a signal, not an error.
  const int seals = fcntl(fd.get(), F_GET_SEALS);  // -1: it can have none
  const bool sealed = seals >= 0 && (seals & kSeals) == kSeals;
  if (!sealed || fstat(fd.get(), &file) != 0 || file.st_size != InboxBytes(address.shape)) {
    return Unavailable(path + " is not a rank's memory", EINVAL);
  }
  StatusOr<ShmInbox> inbox = Map(std::move(fd), address.shape);
  if (!inbox.ok()) return inbox;
  inbox->fd_.reset();
  if (inbox->head().token != address.token || inbox->head().shape != address.shape) {
    return Unavailable(path + " is another process's memory", EINVAL);
  }
  return inbox;
}

StatusOr<ShmInbox> ShmInbox::Map(UniqueFd fd, const ShmShape& shape) {
  void* memory = mmap(nullptr, InboxBytes(shape), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return Unavailable("mapping memory", errno);
  return ShmInbox(std::move(fd), static_cast<std::byte*>(memory), shape);
}

ShmInbox::ShmInbox(ShmInbox&& other) noexcept
    : fd_(std::move(other.fd_)),
      memory_(std::exchange(other.memory_, nullptr)),
      shape_(other.shape_) {}

ShmInbox& ShmInbox::operator=(ShmInbox&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(memory_, other.memory_);
  std::swap(shape_, other.shape_);
  return *this;
}

ShmInbox::~ShmInbox() {
  if (memory_ != nullptr) munmap(memory_, InboxBytes(shape_));
}

ShmAddress ShmInbox::address() const {
  return {.pid = getpid(), .fd = fd_.get(), .token = head().token, .shape = shape_};
}

ShmQueue& ShmInbox::queue(int source) const {
  return reinterpret_cast<ShmQueue*>(memory_ + kQueuesAt)[source];
}

ShmSlot& ShmInbox::slot(int source, uint64_t count) const {
  const int64_t index = int64_t{source} * shape_.slots +
                        static_cast<int64_t>(count % static_cast<uint64_t>(shape_.slots));
  return *reinterpret_cast<ShmSlot*>(memory_ + SlotsAt(shape_) + index * SlotStride(shape_));
}

void ShmInbox::Ring() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // with the one in Sleep
  if (head().sleeping.load(std::memory_order_relaxed) != 0) Wake();
}

void ShmInbox::Wake() const {
  std::atomic<uint32_t>& doorbell = head().doorbell;
  doorbell.fetch_add(1);
  syscall(SYS_futex, &doorbell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void ShmInbox::SleepOnDoorbell(uint32_t seen, int64_t timeout_ns) const {
  const timespec timeout = {static_cast<time_t>(timeout_ns / kNsPerSecond),
                            static_cast<long>(timeout_ns % kNsPerSecond)};
  // Whatever ends it, the caller looks again.
  syscall(SYS_futex, &head().doorbell, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

}  // namespace gradwire
