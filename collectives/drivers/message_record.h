// MessageRecord: the messages that a rank has really sent, for `gradwire perf --record`.
#ifndef GRADWIRE_COLLECTIVES_DRIVERS_MESSAGE_RECORD_H_
#define GRADWIRE_COLLECTIVES_DRIVERS_MESSAGE_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/drivers/run_key.h"

namespace gradwire {

struct SentMessage {
  int dst = -1;
  RunKey key;
  int32_t message = 0;
  int64_t bytes = 0;
};

// One thread at a time.
class MessageRecord {
 public:
  // Beyond kMost they are only counted.
  void Add(const SentMessage& message);
  const std::vector<SentMessage>& messages() const { return messages_; }

  // Lines of JSON: {"src": 0, "dst": 1, "op_seq": 0, "slice": 0, "run": 0, "message": 0,
  // "bytes": 4}, and where some were only counted how many: {"left_out": 3}. gwSystemError: `path`
  // cannot be written.
  Status WriteTo(const std::string& path, int rank) const;

  // 32 MiB.
  static constexpr size_t kMost = 1 << 20;

 private:
  std::vector<SentMessage> messages_;
  int64_t left_out_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_DRIVERS_MESSAGE_RECORD_H_
