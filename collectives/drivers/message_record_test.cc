#include "collectives/drivers/message_record.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace gradwire {
namespace {

std::vector<std::string> Written(const MessageRecord& record) {
  const std::string path = testing::TempDir() + "/messages";
  const Status written = record.WriteTo(path, 3);
  EXPECT_TRUE(written.ok()) << written.ToString();
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(MessageRecord, IsWrittenAsLines) {
  MessageRecord record;
  record.Add({.dst = 1, .key = {.op_seq = 7, .slice = 2, .run = 1}, .message = 5, .bytes = 64});
  EXPECT_EQ(Written(record),
            std::vector<std::string>{"{\"src\": 3, \"dst\": 1, \"op_seq\": 7, \"slice\": 2, "
                                     "\"run\": 1, \"message\": 5, \"bytes\": 64}"});
  EXPECT_EQ(record.WriteTo("/nowhere/at/all", 3).code(), gwSystemError);
}

TEST(MessageRecord, KeepsTheFirstAndTellsHowManyCameBehind) {
  MessageRecord record;
  for (size_t i = 0; i < MessageRecord::kMost + 2; ++i)
    record.Add({.dst = 1, .bytes = static_cast<int64_t>(i)});
  ASSERT_EQ(record.messages().size(), MessageRecord::kMost);
  EXPECT_EQ(record.messages().back().bytes, static_cast<int64_t>(MessageRecord::kMost) - 1);
  EXPECT_EQ(Written(record).back(), "{\"left_out\": 2}");
}

}  // namespace
}  // namespace gradwire
