// The roster: every rank's blob and rank 0's settings, and how they travel in ROSTER messages.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_ROSTER_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_ROSTER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "transports/control/message.h"

namespace gradwire {

inline constexpr int64_t kMaxBlobBytes = 64 * 1024;  // of a rank's blob and of the settings

struct Roster {
  std::string settings;
  std::vector<std::string> blobs;  // by rank
  friend bool operator==(const Roster&, const Roster&) = default;
};

// What a rank does as soon as it knows everybody. Its error fails the start on all ranks.
using UseRoster = std::function<Status(const Roster&)>;

std::string EncodeRoster(const Roster& roster);
// Any text gives a roster of exactly `world_size` ranks or gwDataCorrupt.
StatusOr<Roster> DecodeRoster(const std::string& text, int world_size);

// The ROSTER messages that carry `text`, encoded, one after the other. `stamp` gives src, dst and
// job.
std::string EncodeParts(const std::string& text, ControlMessage stamp);

// Puts the parts together again. Nothing is allocated but what has arrived.
class PartAssembler {
 public:
  explicit PartAssembler(int64_t max_bytes) : max_bytes_(max_bytes) {}
  // True: the text is complete.
  StatusOr<bool> Add(const ControlMessage& part);
  const std::string& text() const { return text_; }

 private:
  int64_t max_bytes_;
  std::string text_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_ROSTER_H_
