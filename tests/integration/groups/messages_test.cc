// gwSend and gwRecv, alone and in groups, with ranks as threads. tests/fault has them with
// processes, over all transports, and with ranks that die.
#include <gtest/gtest.h>

#include <cstdint>
#include <latch>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/dtype.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

// Messages of several slices, and each of these of several fragments.
constexpr const char* kSmallSlices = "slice_elems=4096; fragment_bytes=4096";
constexpr size_t kLong = 100'003;

#define ASSERT_DONE(call)                               \
  do {                                                  \
    ASSERT_EQ(call, gwSuccess) << gwGetLastError(comm); \
  } while (false)

// Different for every pair, position and round.
std::vector<int32_t> Values(int from, int to, size_t count, int round = 0) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), (round * 64 + from * 8 + to) * 1'000'000);
  return values;
}

TEST(Messages, GoFromOneRankToAnother) {
  RunRanks(2, kSmallSlices, [](int rank, gwComm_t comm) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{4096 * 8}, kLong}) {
      SCOPED_TRACE(count);
      const std::vector<int32_t> sent = Values(0, 1, count);
      std::vector<int32_t> got(count);
      if (rank == 0) {
        ASSERT_DONE(gwSend(sent.data(), count, gwInt32, 1, comm, nullptr));
      } else {
        ASSERT_DONE(gwRecv(got.data(), count, gwInt32, 0, comm, nullptr));
        EXPECT_EQ(got, sent);
      }
    }
  });
}

TEST(Messages, OfNothingMayBeAnywhere) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    const char* const odd = reinterpret_cast<const char*>(&comm) + 1;
    if (rank == 0) ASSERT_DONE(gwSend(odd, 0, gwFloat32, 1, comm, nullptr));
    if (rank == 1) ASSERT_DONE(gwRecv(nullptr, 0, gwFloat32, 0, comm, nullptr));
  });
}

TEST(Messages, AreOfEveryType) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    for (int type = 0; type < GW_NUM_TYPES; ++type) {
      SCOPED_TRACE(type);
      const std::vector<int64_t> sent = {-1, type, INT64_MAX};
      std::vector<int64_t> got(sent.size());
      const auto dtype = static_cast<gwDataType_t>(type);
      const size_t count = sent.size() * sizeof(int64_t) / SizeOf(static_cast<DType>(type));
      if (rank == 0) {
        ASSERT_DONE(gwSend(sent.data(), count, dtype, 1, comm, nullptr));
      } else {
        ASSERT_DONE(gwRecv(got.data(), count, dtype, 0, comm, nullptr));
        EXPECT_EQ(got, sent);
      }
    }
  });
}

TEST(Messages, OfAPairKeepTheirOrder) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    constexpr int kMessages = 100;
    std::vector<int32_t> values(kMessages, -1);
    ASSERT_EQ(gwGroupStart(), gwSuccess);
    for (int i = 0; i < kMessages; ++i) {
      if (rank == 0) values[i] = i;
      EXPECT_EQ(rank == 0 ? gwSend(&values[i], 1, gwInt32, 1, comm, nullptr)
                          : gwRecv(&values[i], 1, gwInt32, 0, comm, nullptr),
                gwSuccess);
    }
    ASSERT_DONE(gwGroupEnd());
    for (int i = 0; i < kMessages; ++i) ASSERT_EQ(values[i], i);
  });
}

// Every rank sends first: without the group nobody would ever receive.
TEST(MessageGroups, ARing) {
  constexpr int kRanks = 5;
  RunRanks(kRanks, kSmallSlices, [](int rank, gwComm_t comm) {
    const int next = (rank + 1) % kRanks, before = (rank + kRanks - 1) % kRanks;
    for (int round = 0; round < 5; ++round) {
      const std::vector<int32_t> sent = Values(rank, next, kLong, round);
      std::vector<int32_t> got(kLong);
      ASSERT_EQ(gwGroupStart(), gwSuccess);
      ASSERT_DONE(gwSend(sent.data(), kLong, gwInt32, next, comm, nullptr));
      ASSERT_DONE(gwRecv(got.data(), kLong, gwInt32, before, comm, nullptr));
      ASSERT_DONE(gwGroupEnd());
      ASSERT_EQ(got, Values(before, rank, kLong, round));
    }
  });
}

// With itself too, the ranks in different orders, mixed with collectives.
TEST(MessageGroups, AllToAllBesideCollectives) {
  constexpr int kRanks = 4;
  constexpr size_t kCount = 20'001;
  RunRanks(kRanks, kSmallSlices, [](int rank, gwComm_t comm) {
    std::vector<std::vector<int32_t>> sent, got(kRanks, std::vector<int32_t>(kCount));
    for (int to = 0; to < kRanks; ++to) sent.push_back(Values(rank, to, kCount));
    int64_t sum = rank, most = rank;
    ASSERT_EQ(gwGroupStart(), gwSuccess);
    ASSERT_DONE(gwAllReduce(&sum, &sum, 1, gwInt64, gwSum, comm, nullptr));
    for (int i = 0; i < kRanks; ++i) {
      const int peer = rank % 2 == 0 ? (rank + i) % kRanks : (rank + kRanks - i) % kRanks;
      if (rank < 2) ASSERT_DONE(gwRecv(got[peer].data(), kCount, gwInt32, peer, comm, nullptr));
      ASSERT_DONE(gwSend(sent[peer].data(), kCount, gwInt32, peer, comm, nullptr));
      if (rank >= 2) ASSERT_DONE(gwRecv(got[peer].data(), kCount, gwInt32, peer, comm, nullptr));
    }
    ASSERT_DONE(gwAllReduce(&most, &most, 1, gwInt64, gwMax, comm, nullptr));
    EXPECT_EQ(sum, rank) << "nothing happens before the group's end";
    ASSERT_DONE(gwGroupEnd());
    EXPECT_EQ(sum, 6);
    EXPECT_EQ(most, 3);
    for (int from = 0; from < kRanks; ++from) EXPECT_EQ(got[from], Values(from, rank, kCount));
  });
}

// Two ranks talk while all are in steps: numbers of operations stay equal on all ranks.
TEST(Messages, DoNotCountAsOperations) {
  RunRanks(3, "", [](int rank, gwComm_t comm) {
    for (uint64_t step = 1; step <= 3; ++step) {
      ASSERT_DONE(gwStepBegin(comm, step));
      int32_t value = rank;
      if (rank == 0) ASSERT_DONE(gwSend(&value, 1, gwInt32, 2, comm, nullptr));
      if (rank == 2) ASSERT_DONE(gwRecv(&value, 1, gwInt32, 0, comm, nullptr));
      EXPECT_TRUE(AllReduceWorks(rank, 3, comm));
      gwStepOutcome_t outcome = gwStepAborted;
      ASSERT_DONE(gwStepEnd(comm, &outcome));
      EXPECT_EQ(outcome, gwStepCommitted);
    }
  });
}

TEST(MessageGroups, NestedOnesCount) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    int32_t sent = rank, got = -1;
    ASSERT_EQ(gwGroupStart(), gwSuccess);
    ASSERT_EQ(gwGroupStart(), gwSuccess);
    ASSERT_DONE(gwSend(&sent, 1, gwInt32, 1 - rank, comm, nullptr));
    ASSERT_DONE(gwGroupEnd());
    EXPECT_EQ(got, -1);
    ASSERT_DONE(gwRecv(&got, 1, gwInt32, 1 - rank, comm, nullptr));
    ASSERT_DONE(gwGroupEnd());
    EXPECT_EQ(got, 1 - rank);
    EXPECT_EQ(gwGroupEnd(), gwInvalidUsage);
  });
}

TEST(MessageGroups, AnEmptyOneIsFine) {
  EXPECT_EQ(gwGroupStart(), gwSuccess);
  EXPECT_EQ(gwGroupEnd(), gwSuccess);
}

// One thread for two communicators: neither's call is complete before the other's is there too.
TEST(MessageGroups, OfSeveralCommunicators) {
  RunRanks(3, "", [](int rank, gwComm_t comm) {
    gwComm_t other = nullptr;
    ASSERT_DONE(gwCommSplit(comm, 0, -rank, &other, nullptr));
    int64_t one = rank, two = 10 * rank;
    ASSERT_EQ(gwGroupStart(), gwSuccess);
    gwComm_t order[2] = {comm, other};
    int64_t* sums[2] = {&one, &two};
    for (int i = 0; i < 2; ++i) {
      const int at = (i + rank) % 2;
      ASSERT_DONE(gwAllReduce(sums[at], sums[at], 1, gwInt64, gwSum, order[at], nullptr));
    }
    ASSERT_DONE(gwGroupEnd());
    EXPECT_EQ(one, 3);
    EXPECT_EQ(two, 30);
    EXPECT_EQ(gwCommDestroy(other), gwSuccess);
  });
}

// ---- what is wrong ----

// Both ends of a message that differs; afterwards the two go on.
void ExpectMismatch(size_t sent, gwDataType_t sent_type, size_t received,
                    gwDataType_t received_type, const std::string& field, const std::string& value0,
                    const std::string& value1) {
  RunRanks(3, "", [&](int rank, gwComm_t comm) {
    std::vector<double> memory(8);
    if (rank < 2) {
      const gwResult_t result =
          rank == 0 ? gwSend(memory.data(), sent, sent_type, 1, comm, nullptr)
                    : gwRecv(memory.data(), received, received_type, 0, comm, nullptr);
      const std::string text = gwGetLastError(comm);
      EXPECT_EQ(result, gwMismatch) << text;
      const std::string& mine = rank == 0 ? value0 : value1;
      const std::string& theirs = rank == 0 ? value1 : value0;
      EXPECT_NE(text.find(field + ": " + mine), std::string::npos) << text;
      EXPECT_NE(text.find(theirs), std::string::npos) << text;
    }
    // Nobody else hears of it, and the next message meets the next.
    EXPECT_TRUE(AllReduceWorks(rank, 3, comm)) << gwGetLastError(comm);
    int32_t value = rank == 0 ? 77 : 0;
    if (rank == 0) ASSERT_DONE(gwSend(&value, 1, gwInt32, 1, comm, nullptr));
    if (rank == 1) ASSERT_DONE(gwRecv(&value, 1, gwInt32, 0, comm, nullptr));
    EXPECT_EQ(value, rank < 2 ? 77 : 0);
  });
}

TEST(MessageErrors, ACountThatDiffers) {
  ExpectMismatch(5, gwFloat32, 6, gwFloat32, "count", "5 (rank 0)", "6 (rank 1)");
}
TEST(MessageErrors, ATypeThatDiffers) {
  ExpectMismatch(4, gwFloat32, 4, gwInt32, "datatype", "float (rank 0)", "int32 (rank 1)");
}

// Nobody ever receives it. What comes later fails too, and what comes after that is met.
TEST(MessageErrors, ASendThatNobodyReceivesEnds) {
  std::latch failed(1);
  RunRanks(2, "op_timeout_ms=300", [&](int rank, gwComm_t comm) {
    int32_t value = rank;
    if (rank == 0) {
      EXPECT_EQ(gwSend(&value, 1, gwInt32, 1, comm, nullptr), gwTimeout);
      const std::string text = gwGetLastError(comm);
      EXPECT_NE(text.find("rank 1 has not moved its receive"), std::string::npos) << text;
      failed.count_down();
    }
    failed.wait();
    if (rank == 1) {
      EXPECT_EQ(gwRecv(&value, 1, gwInt32, 0, comm, nullptr), gwRemoteError);
      const std::string text = gwGetLastError(comm);
      EXPECT_NE(text.find("rank 0 has given up the send"), std::string::npos) << text;
      ASSERT_DONE(gwRecv(&value, 1, gwInt32, 0, comm, nullptr));
      EXPECT_EQ(value, 55);
    } else {
      value = 55;
      ASSERT_DONE(gwSend(&value, 1, gwInt32, 1, comm, nullptr));
    }
  });
}

TEST(MessageErrors, AReceiveThatNobodySendsEnds) {
  std::latch failed(1);
  RunRanks(2, "op_timeout_ms=300", [&](int rank, gwComm_t comm) {
    int32_t value = 5;
    if (rank == 1) {
      EXPECT_EQ(gwRecv(&value, 1, gwInt32, 0, comm, nullptr), gwTimeout);
      const std::string text = gwGetLastError(comm);
      EXPECT_NE(text.find("rank 0 has not moved its send"), std::string::npos) << text;
      EXPECT_EQ(value, 5);
      failed.count_down();
    }
    failed.wait();
    if (rank == 0) {
      // It may cross the word that rank 1 has given up, and is then complete like any other.
      const gwResult_t sent = gwSend(&value, 1, gwInt32, 1, comm, nullptr);
      EXPECT_TRUE(sent == gwSuccess || sent == gwRemoteError) << gwGetLastError(comm);
      value = 66;
      ASSERT_DONE(gwSend(&value, 1, gwInt32, 1, comm, nullptr));
    } else {
      ASSERT_DONE(gwRecv(&value, 1, gwInt32, 0, comm, nullptr));
      EXPECT_EQ(value, 66);
    }
  });
}

TEST(MessageErrors, APeerThatLeavesIsNamed) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    if (rank != 0) return;
    int32_t value = 0;
    EXPECT_EQ(gwRecv(&value, 1, gwInt32, 1, comm, nullptr), gwPeerLost);
    const std::string text = gwGetLastError(comm);
    EXPECT_NE(text.find("rank 1 has left"), std::string::npos) << text;
  });
}

TEST(MessageErrors, ToItselfOnlyInAGroup) {
  RunRanks(1, "", [](int, gwComm_t comm) {
    int32_t sent = 3, got = 0;
    double other = 0;
    EXPECT_EQ(gwSend(&sent, 1, gwInt32, 0, comm, nullptr), gwInvalidUsage);
    EXPECT_EQ(gwRecv(&got, 1, gwInt32, 0, comm, nullptr), gwInvalidUsage);
    ASSERT_EQ(gwGroupStart(), gwSuccess);
    ASSERT_DONE(gwRecv(&other, 1, gwFloat64, 0, comm, nullptr));
    ASSERT_DONE(gwSend(&sent, 1, gwInt32, 0, comm, nullptr));
    EXPECT_EQ(gwGroupEnd(), gwMismatch);
    EXPECT_EQ(other, 0);
    ASSERT_EQ(gwGroupStart(), gwSuccess);
    ASSERT_DONE(gwSend(&sent, 1, gwInt32, 0, comm, nullptr));
    ASSERT_DONE(gwRecv(&got, 1, gwInt32, 0, comm, nullptr));
    ASSERT_DONE(gwGroupEnd());
    EXPECT_EQ(got, 3);
  });
}

// The call says so and the group's end again; nothing of the group happens.
TEST(MessageErrors, AWrongArgumentWithinAGroup) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    int32_t value = rank, sum = 1;
    ASSERT_EQ(gwGroupStart(), gwSuccess);
    ASSERT_DONE(gwAllReduce(&sum, &sum, 1, gwInt32, gwSum, comm, nullptr));
    EXPECT_EQ(gwSend(&value, 1, gwInt32, 2, comm, nullptr), gwInvalidArgument);
    EXPECT_EQ(gwRecv(nullptr, 1, gwInt32, 1 - rank, nullptr, nullptr), gwInvalidArgument);
    EXPECT_EQ(gwGroupEnd(), gwInvalidArgument);
    EXPECT_NE(std::string(gwGetLastError(nullptr)).find("peer 2"), std::string::npos);
    EXPECT_EQ(sum, 1);
    EXPECT_TRUE(AllReduceWorks(rank, 2, comm));
  });
}

TEST(MessageErrors, TheTextIsOfTheErrorThatAGroupReturns) {
  RunRanks(1, "", [](int, gwComm_t comm) {
    int32_t values[2] = {};
    const char* const odd = reinterpret_cast<const char*>(values) + 1;
    ASSERT_EQ(gwGroupStart(), gwSuccess);
    EXPECT_EQ(gwSend(odd, 1, gwInt32, 0, comm, nullptr), gwInvalidArgument);
    // By itself this is gwInvalidUsage: its send is missing.
    ASSERT_DONE(gwRecv(values, 1, gwInt32, 0, comm, nullptr));
    EXPECT_EQ(gwGroupEnd(), gwInvalidArgument);
    for (const gwComm_t of : {comm, gwComm_t{nullptr}}) {
      const std::string text = gwGetLastError(of);
      EXPECT_NE(text.find("aligned"), std::string::npos) << text;
    }
  });
}

TEST(MessageErrors, ATextStaysUntilTheNextIsAskedFor) {
  RunRanks(1, "", [](int, gwComm_t comm) {
    int32_t value = 0;
    EXPECT_EQ(gwSend(&value, 1, gwInt32, 5, comm, nullptr), gwInvalidArgument);
    const char* const text = gwGetLastError(comm);
    const std::string before = text;
    ASSERT_EQ(gwGroupStart(), gwSuccess);
    EXPECT_EQ(gwSend(&value, 1, gwInt32, 6, comm, nullptr), gwInvalidArgument);
    EXPECT_EQ(gwGroupEnd(), gwInvalidArgument);
    EXPECT_EQ(text, before);
    EXPECT_NE(std::string(gwGetLastError(nullptr)).find("peer 6"), std::string::npos);
  });
}

TEST(MessageErrors, ACommunicatorWithCallsInAGroupStays) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    int32_t sum = 1;
    gwComm_t other = nullptr;
    ASSERT_EQ(gwGroupStart(), gwSuccess);
    ASSERT_DONE(gwAllReduce(&sum, &sum, 1, gwInt32, gwSum, comm, nullptr));
    EXPECT_EQ(gwCommSplit(comm, 0, 0, &other, nullptr), gwInvalidUsage);
    EXPECT_EQ(gwCommFinalize(comm), gwInvalidUsage);
    EXPECT_EQ(gwCommDestroy(comm), gwInvalidUsage);
    ASSERT_DONE(gwGroupEnd());
    EXPECT_EQ(sum, 2);
    EXPECT_TRUE(AllReduceWorks(rank, 2, comm));
  });
}

TEST(MessageErrors, AGroupThatItsThreadLeavesOpenIsForgotten) {
  RunRanks(1, "", [](int, gwComm_t comm) {
    std::thread([comm] {
      const int32_t value = 1;
      ASSERT_EQ(gwGroupStart(), gwSuccess);
      ASSERT_DONE(gwSend(&value, 1, gwInt32, 0, comm, nullptr));
    }).join();
    EXPECT_EQ(gwCommFinalize(comm), gwSuccess) << gwGetLastError(comm);
  });
}

// Nothing is issued on any communicator: what follows is not met by what was refused.
TEST(MessageErrors, ACommunicatorThatCannotKeepsTheOthersBack) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    gwComm_t own = nullptr;
    ASSERT_DONE(gwCommSplit(comm, rank, 0, &own, nullptr));
    int32_t sent = 7, got = -1;
    for (const bool is_wrong : {true, false}) {
      sent += rank + 1;
      ASSERT_EQ(gwGroupStart(), gwSuccess);
      ASSERT_DONE(gwSend(&sent, 1, gwInt32, 1 - rank, comm, nullptr));
      ASSERT_DONE(gwRecv(&got, 1, gwInt32, 1 - rank, comm, nullptr));
      if (is_wrong) {
        ASSERT_DONE(gwSend(&sent, 1, gwInt32, 0, own, nullptr));
      }
      EXPECT_EQ(gwGroupEnd(), is_wrong ? gwInvalidUsage : gwSuccess) << gwGetLastError(nullptr);
      EXPECT_EQ(got, is_wrong ? -1 : 7 + 2 * (2 - rank));
    }
    EXPECT_EQ(gwCommDestroy(own), gwSuccess);
  });
}

TEST(MessageErrors, ASplitWithinAGroup) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    gwComm_t other = nullptr;
    if (rank == 0) {
      ASSERT_EQ(gwGroupStart(), gwSuccess);
    }
    EXPECT_EQ(gwCommSplit(comm, 0, 0, &other, nullptr), rank == 0 ? gwInvalidUsage : gwRemoteError);
    if (rank == 0) {
      EXPECT_EQ(gwGroupEnd(), gwSuccess);
    }
    EXPECT_TRUE(AllReduceWorks(rank, 2, comm));
  });
}

// A collective of the group that the ranks disagree about takes no message with it.
TEST(MessageErrors, AMismatchOfACollectiveBeside) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    int32_t sent = rank, got = -1;
    std::vector<float> sums(8);
    ASSERT_EQ(gwGroupStart(), gwSuccess);
    ASSERT_DONE(gwSend(&sent, 1, gwInt32, 1 - rank, comm, nullptr));
    ASSERT_DONE(gwAllReduce(sums.data(), sums.data(), 4 + rank, gwFloat32, gwSum, comm, nullptr));
    ASSERT_DONE(gwRecv(&got, 1, gwInt32, 1 - rank, comm, nullptr));
    EXPECT_EQ(gwGroupEnd(), gwMismatch) << gwGetLastError(comm);
    EXPECT_EQ(got, 1 - rank);
    EXPECT_TRUE(AllReduceWorks(rank, 2, comm));
  });
}

// Under a transport that reorders messages and delays them.
TEST(MessageGroups, OverAReorderingTransport) {
  RunRanks(3, "transport=faulty(loopback,seed=7,delay=0.3,late_sent=0.3); slice_elems=4096",
           [](int rank, gwComm_t comm) {
             const int next = (rank + 1) % 3, before = (rank + 2) % 3;
             for (int round = 0; round < 20; ++round) {
               const std::vector<int32_t> sent = Values(rank, next, kLong, round);
               std::vector<int32_t> got(kLong);
               ASSERT_EQ(gwGroupStart(), gwSuccess);
               ASSERT_DONE(gwSend(sent.data(), kLong, gwInt32, next, comm, nullptr));
               ASSERT_DONE(gwRecv(got.data(), kLong, gwInt32, before, comm, nullptr));
               ASSERT_DONE(gwGroupEnd());
               ASSERT_EQ(got, Values(before, rank, kLong, round));
             }
           });
}

}  // namespace
}  // namespace gradwire
