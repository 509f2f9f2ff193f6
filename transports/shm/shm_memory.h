// The memory that ranks of one host share: each owns an inbox that all others have mapped, with a
// queue of slots from every peer.
#ifndef GRADWIRE_TRANSPORTS_SHM_SHM_MEMORY_H_
#define GRADWIRE_TRANSPORTS_SHM_SHM_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"
#include "base/workspace.h"
#include "transports/frame/frame.h"

namespace gradwire {

// Apart by this much, what two ranks write is not in lines that the processor fetches as a pair.
inline constexpr int64_t kShmLine = 128;

// One fragment on its way.
struct alignas(kShmLine) ShmSlot {
  // Number of the fragment in this queue from 1 on, once it can be read. Written last.
  std::atomic<uint64_t> number;
  int64_t bytes;  // of the payload behind the slot; header.fragment_bytes is only a claim
  alignas(kBufferAlign) FrameHeader header;
};
static_assert(sizeof(ShmSlot) == kShmLine);

// The queue from one peer; its slots lie behind all queues.
struct ShmQueue {
  alignas(kShmLine) std::atomic<uint64_t> taken;         // fragments consumed; by the owner
  alignas(kShmLine) std::atomic<uint32_t> sender_waits;  // it found no room; by it
  std::atomic<uint32_t> gone;                            // the sender has destroyed its end
};

// How large an inbox is; the same in all of them.
struct ShmShape {
  int32_t world_size = 0;
  int32_t slots = 0;           // of each queue
  int32_t fragment_bytes = 0;  // of each slot
  bool operator==(const ShmShape&) const = default;
};

struct ShmToken {
  uint64_t words[2] = {};
  bool operator==(const ShmToken&) const = default;
};

struct ShmInboxHead {
  ShmToken token;
  ShmShape shape;
  // The owner sleeps on `doorbell` while `sleeping`; who has news for it changes the one if the
  // other is set.
  alignas(kShmLine) std::atomic<uint32_t> sleeping;
  std::atomic<uint32_t> doorbell;
};

// Where a rank's inbox is: memory without a name, so that nothing is left behind whatever happens.
struct ShmAddress {
  int32_t pid = 0, fd = -1;
  ShmToken token;
  ShmShape shape;
};
std::string EncodeShmAddress(const ShmAddress& address);
// Any bytes whatever are decoded or gwInvalidArgument.
StatusOr<ShmAddress> DecodeShmAddress(std::string_view bytes);

// A mapped inbox, own or a peer's.
class ShmInbox {
 public:
  // New memory; pages are taken as they are first written. gwTransportUnavailable: the system has
  // no such memory, or other processes could not open it.
  static StatusOr<ShmInbox> Create(const ShmShape& shape);
  // A peer's. gwTransportUnavailable: it cannot be opened from here, or is something else.
  static StatusOr<ShmInbox> Open(const ShmAddress& address);

  ShmInbox() = default;
  ShmInbox(ShmInbox&& other) noexcept;
  ShmInbox& operator=(ShmInbox&& other) noexcept;
  ~ShmInbox();

  // Of an inbox that was created here.
  ShmAddress address() const;

  ShmQueue& queue(int source) const;
  // The slot that the fragment after `count` others goes to.
  ShmSlot& slot(int source, uint64_t count) const;
  std::byte* payload(ShmSlot& slot) const { return reinterpret_cast<std::byte*>(&slot + 1); }

  // Whether the owner has a fragment after `count` others to take.
  bool HasFragment(int source, uint64_t count) const {
    return slot(source, count).number.load(std::memory_order_acquire) == count + 1;
  }

  // Wakes the owner if it sleeps; what was written before is news that it sees.
  void Ring() const;
  // Changes the doorbell in any case.
  void Wake() const;

  // Sleeps until the doorbell rings, `timeout_ns` have passed or there is no reason to:
  // `has_news` is asked when every later news would ring.
  template <typename HasNews>
  void Sleep(int64_t timeout_ns, HasNews has_news) const {
    const uint32_t seen = head().doorbell.load();
    head().sleeping.store(1);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // with the one in Ring
    if (!has_news()) SleepOnDoorbell(seen, timeout_ns);
    head().sleeping.store(0);
  }

 private:
  ShmInbox(UniqueFd fd, std::byte* memory, const ShmShape& shape)
      : fd_(std::move(fd)), memory_(memory), shape_(shape) {}
  static StatusOr<ShmInbox> Map(UniqueFd fd, const ShmShape& shape);
  ShmInboxHead& head() const { return *reinterpret_cast<ShmInboxHead*>(memory_); }
  void SleepOnDoorbell(uint32_t seen, int64_t timeout_ns) const;

  UniqueFd fd_;  // of the owner; a peer needs it no longer once it is mapped
  std::byte* memory_ = nullptr;
  ShmShape shape_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_SHM_SHM_MEMORY_H_
