// gwSend and gwRecv leave their calls and ends in the record.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/recorder/entry_text.h"
#include "runtime/recorder/recorder_in_folder.h"
#include "runtime/recorder/recorder_log.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

bool IsOfMessage(const RecorderEntry& entry) {
  return entry.kind == RecordKind::kSend || entry.kind == RecordKind::kSendDone ||
         entry.kind == RecordKind::kRecv || entry.kind == RecordKind::kRecvDone;
}

// What each of two ranks has recorded of messages, in words, while `body` ran.
std::vector<std::vector<std::string>> RecordedMessages(
    const std::function<void(int rank, gwComm_t comm)>& body) {
  const std::string dir = TestFolder();
  RunRanks(2, "recorder_dir=" + dir, body);
  std::vector<std::vector<std::string>> texts(2);
  for (const auto& file : std::filesystem::directory_iterator(dir)) {
    const StatusOr<RecorderLog> log = ReadRecorder(file.path().string());
    EXPECT_TRUE(log.ok()) << log.status().ToString();
    if (!log.ok()) continue;
    for (const RecorderEntry& entry : log->entries) {
      if (IsOfMessage(entry)) texts[log->header.rank].push_back(DescribeEntry(entry));
    }
  }
  return texts;
}

TEST(RecordedMessages, CallAndEndAreThereOnBothSides) {
  const auto texts = RecordedMessages([](int rank, gwComm_t comm) {
    std::vector<int32_t> values(1000, rank);
    const gwResult_t done = rank == 0
                                ? gwSend(values.data(), values.size(), gwInt32, 1, comm, nullptr)
                                : gwRecv(values.data(), values.size(), gwInt32, 0, comm, nullptr);
    EXPECT_EQ(done, gwSuccess) << gwGetLastError(comm);
  });
  EXPECT_THAT(texts[0], ElementsAre("send to rank 1 (4000 bytes) called",
                                    "send to rank 1 (4000 bytes) complete"));
  EXPECT_THAT(texts[1], ElementsAre("receive from rank 0 (4000 bytes) called",
                                    "receive from rank 0 (4000 bytes) complete"));
}

TEST(RecordedMessages, AFailureSaysWhy) {
  const auto texts = RecordedMessages([](int rank, gwComm_t comm) {
    int32_t values[2] = {};
    const gwResult_t done = rank == 0 ? gwSend(values, 2, gwInt32, 1, comm, nullptr)
                                      : gwRecv(values, 1, gwInt32, 0, comm, nullptr);
    EXPECT_EQ(done, gwMismatch);
  });
  EXPECT_THAT(texts[0], ElementsAre("send to rank 1 (8 bytes) called",
                                    StartsWith("send to rank 1 (8 bytes) failed: ranks disagree: "
                                               "count: 2 (rank 0), 1 (rank 1)")));
  EXPECT_THAT(texts[1],
              ElementsAre("receive from rank 0 (4 bytes) called",
                          StartsWith("receive from rank 0 (4 bytes) failed: ranks disagree")));
}

TEST(RecordedMessages, WhatNobodyMeetsEndsWithTheReason) {
  const auto texts = RecordedMessages([](int rank, gwComm_t comm) {
    if (rank != 0) return;
    int32_t value = 0;
    EXPECT_EQ(gwRecv(&value, 1, gwInt32, 1, comm, nullptr), gwPeerLost);
  });
  EXPECT_THAT(texts[0], ElementsAre("receive from rank 1 (4 bytes) called",
                                    StartsWith("receive from rank 1 (4 bytes) failed: peer lost: "
                                               "rank 1 has left")));
  EXPECT_TRUE(texts[1].empty());
}

}  // namespace
}  // namespace gradwire
