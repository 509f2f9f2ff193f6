#include "collectives/drivers/message_record.h"

#include <fmt/format.h>

#include <fstream>

namespace gradwire {

void MessageRecord::Add(const SentMessage& message) {
  if (messages_.size() < kMost) {
    messages_.push_back(message);
  } else {
    ++left_out_;
  }
}

Status MessageRecord::WriteTo(const std::string& path, int rank) const {
  std::ofstream file(path);
  for (const SentMessage& m : messages_) {
    file << fmt::format(
        "{{\"src\": {}, \"dst\": {}, \"op_seq\": {}, \"slice\": {}, \"run\": {}, \"message\": {}, "
        "\"bytes\": {}}}\n",
        rank, m.dst, m.key.op_seq, m.key.slice, m.key.run, m.message, m.bytes);
  }
  if (left_out_ > 0) file << fmt::format("{{\"left_out\": {}}}\n", left_out_);
  file.close();
  return file
             ? Status()
             : Status(gwSystemError, fmt::format("cannot write the record of messages '{}'", path));
}

}  // namespace gradwire
