// gwCommSplit with ranks as threads: who is where, who is told what, and what lives how long.
// tests/fault has it with processes, over all transports, and with ranks that die in it.
#include <gtest/gtest.h>

#include <cstdint>
#include <latch>
#include <string>
#include <vector>

#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

constexpr int kRanks = 5;

struct Place {
  int rank = -1, ranks = -1;
  bool operator==(const Place&) const = default;
};

Place PlaceIn(gwComm_t comm) {
  Place place;
  EXPECT_EQ(gwCommUserRank(comm, &place.rank), gwSuccess);
  EXPECT_EQ(gwCommCount(comm, &place.ranks), gwSuccess);
  return place;
}

// The sum over the communicator; -1 if there is none.
int64_t SumOver(gwComm_t comm, int64_t mine) {
  int64_t sum = mine;
  const gwResult_t result = gwAllReduce(&sum, &sum, 1, gwInt64, gwSum, comm, nullptr);
  EXPECT_EQ(result, gwSuccess) << gwGetLastError(comm);
  return result == gwSuccess ? sum : -1;
}

void ExpectUsable(gwComm_t comm) {
  const Place place = PlaceIn(comm);
  EXPECT_TRUE(AllReduceWorks(place.rank, place.ranks, comm)) << gwGetLastError(comm);
}

TEST(Split, OddAndEvenRanksSumAtTheSameTime) {
  RunRanks(kRanks, "", [](int rank, gwComm_t comm) {
    gwComm_t half = nullptr;
    ASSERT_EQ(gwCommSplit(comm, rank % 2, rank, &half, nullptr), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(PlaceIn(half), (Place{rank / 2, rank % 2 == 0 ? 3 : 2}));
    for (int round = 0; round < 20; ++round) {
      EXPECT_EQ(SumOver(half, rank), rank % 2 == 0 ? 0 + 2 + 4 : 1 + 3);
      EXPECT_EQ(SumOver(comm, rank), 10);
    }
    EXPECT_EQ(gwCommDestroy(half), gwSuccess);
  });
}

TEST(Split, KeysOrderTheRanksAndTiesKeepTheOrder) {
  RunRanks(kRanks, "", [](int rank, gwComm_t comm) {
    const int keys[kRanks] = {7, -3, 7, 7, -9};
    const int expected[kRanks] = {2, 1, 3, 4, 0};
    gwComm_t turned = nullptr;
    ASSERT_EQ(gwCommSplit(comm, 4, keys[rank], &turned, nullptr), gwSuccess);
    EXPECT_EQ(PlaceIn(turned), (Place{expected[rank], kRanks}));
    int32_t root = rank;
    EXPECT_EQ(gwBroadcast(&root, &root, 1, gwInt32, 0, turned, nullptr), gwSuccess);
    EXPECT_EQ(root, 4);
    EXPECT_EQ(gwCommDestroy(turned), gwSuccess);
  });
}

TEST(Split, ARankWithoutColorGetsNone) {
  RunRanks(3, "", [](int rank, gwComm_t comm) {
    gwComm_t group = comm;
    ASSERT_EQ(gwCommSplit(comm, rank == 1 ? GW_SPLIT_NOCOLOR : 0, 0, &group, nullptr), gwSuccess);
    if (rank == 1) {
      EXPECT_EQ(group, nullptr);
    } else {
      EXPECT_EQ(PlaceIn(group), (Place{rank / 2, 2}));
      EXPECT_EQ(SumOver(group, rank), 2);
      EXPECT_EQ(gwCommDestroy(group), gwSuccess);
    }
    ExpectUsable(comm);
  });
}

TEST(Split, NobodyHasAColor) {
  RunRanks(2, "", [](int, gwComm_t comm) {
    gwComm_t group = comm;
    ASSERT_EQ(gwCommSplit(comm, GW_SPLIT_NOCOLOR, 0, &group, nullptr), gwSuccess);
    EXPECT_EQ(group, nullptr);
    ExpectUsable(comm);
  });
}

TEST(Split, EveryRankForItself) {
  RunRanks(3, "", [](int rank, gwComm_t comm) {
    gwComm_t alone = nullptr;
    ASSERT_EQ(gwCommSplit(comm, rank, 0, &alone, nullptr), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(PlaceIn(alone), (Place{0, 1}));
    EXPECT_EQ(SumOver(alone, rank), rank);
    EXPECT_EQ(gwCommDestroy(alone), gwSuccess);
  });
}

TEST(Split, OfASplit) {
  RunRanks(4, "", [](int rank, gwComm_t comm) {
    gwComm_t half = nullptr, one = nullptr;
    ASSERT_EQ(gwCommSplit(comm, rank / 2, 0, &half, nullptr), gwSuccess);
    // The halves split at the same time, each in its own way.
    ASSERT_EQ(gwCommSplit(half, rank < 2 ? 0 : rank, -rank, &one, nullptr), gwSuccess)
        << gwGetLastError(half);
    EXPECT_EQ(PlaceIn(one), (rank < 2 ? Place{1 - rank, 2} : Place{0, 1}));
    EXPECT_EQ(SumOver(one, rank), rank < 2 ? 1 : rank);
    EXPECT_EQ(SumOver(half, rank), rank < 2 ? 1 : 5);
    EXPECT_EQ(gwCommDestroy(one), gwSuccess);
    EXPECT_EQ(gwCommDestroy(half), gwSuccess);
  });
}

TEST(Split, AGroupOutlivesItsParent) {
  std::vector<gwComm_t> groups(3, nullptr);
  RunRanks(3, "", [&](int rank, gwComm_t comm) {
    ASSERT_EQ(gwCommSplit(comm, 0, 0, &groups[rank], nullptr), gwSuccess);
    // RunRanks destroys the parent; the next job runs in the group alone.
  });
  RunRanks(3, "", [&](int rank, gwComm_t) {
    EXPECT_EQ(SumOver(groups[rank], rank), 3);
    EXPECT_EQ(gwCommDestroy(groups[rank]), gwSuccess);
  });
}

TEST(Split, HasTheParentsSettingsOrItsOwn) {
  RunRanks(2, "slice_elems=1024; compress=bf16", [](int, gwComm_t comm) {
    gwComm_t same = nullptr, other = nullptr;
    ASSERT_EQ(gwCommSplit(comm, 0, 0, &same, nullptr), gwSuccess);
    gwConfig_t config = GW_CONFIG_INITIALIZER;
    config.settings = "transport=loopback; slice_elems=2048";
    ASSERT_EQ(gwCommSplit(comm, 0, 0, &other, &config), gwSuccess) << gwGetLastError(comm);
    const auto slice_elems = [](gwComm_t c) {
      const std::string stats = StatsText(c);
      const size_t at = stats.find("\"slice_elems\":");
      return at == std::string::npos ? -1 : std::stoi(stats.substr(at + 14));
    };
    EXPECT_EQ(slice_elems(same), slice_elems(comm));
    EXPECT_NE(slice_elems(other), slice_elems(comm));
    EXPECT_EQ(gwCommDestroy(same), gwSuccess);
    EXPECT_EQ(gwCommDestroy(other), gwSuccess);
  });
}

// What a step makes of 0.3 in each element.
std::vector<float> SumInAStep(gwComm_t comm, const char* spec) {
  std::vector<float> values(4096, 0.3f);
  values[0] = 1;
  const int64_t shape = static_cast<int64_t>(values.size());
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = spec;
  gwTensor_t tensor = nullptr;
  gwRequest_t request = nullptr;
  gwStepOutcome_t outcome = gwStepAborted;
  EXPECT_EQ(gwTensorRegister(comm, "w", &shape, 1, gwFloat32, &config, &tensor), gwSuccess);
  EXPECT_EQ(gwStepBegin(comm, 1), gwSuccess);
  EXPECT_EQ(gwAllReduceTensor(tensor, values.data(), values.data(), gwSum, nullptr, &request),
            gwSuccess);
  EXPECT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
  EXPECT_EQ(gwRequestFree(request), gwSuccess);
  EXPECT_EQ(gwStepEnd(comm, &outcome), gwSuccess);
  return values;
}

// With two levels they are rounded at random.
std::vector<float> Rounded(gwComm_t comm) { return SumInAStep(comm, "qsgd(bits=2)"); }

// Sums of groups' sums would not average a noise that is the same in all.
TEST(Split, GroupsRoundEachInItsOwnWay) {
  std::vector<std::vector<float>> rounded(4), again(4);
  for (auto* results : {&rounded, &again}) {
    RunRanks(4, "", [&](int rank, gwComm_t comm) {
      gwComm_t half = nullptr, inner = nullptr, second = nullptr;
      ASSERT_EQ(gwCommSplit(comm, rank / 2, 0, &half, nullptr), gwSuccess);
      ASSERT_EQ(gwCommSplit(comm, rank / 2, 0, &second, nullptr), gwSuccess);
      ASSERT_EQ(gwCommSplit(half, 0, 0, &inner, nullptr), gwSuccess);
      const std::vector<float> halves = Rounded(half), seconds = Rounded(second);
      if (rank % 2 == 0) {
        (*results)[rank] = halves;
        (*results)[rank + 1] = Rounded(inner);
        EXPECT_NE(halves, seconds);
      } else {
        (void)Rounded(inner);
      }
      for (const gwComm_t made : {half, inner, second}) EXPECT_EQ(gwCommDestroy(made), gwSuccess);
    });
  }
  for (size_t a = 0; a < rounded.size(); ++a) {
    for (size_t b = 0; b < a; ++b) EXPECT_NE(rounded[a], rounded[b]) << a << ", " << b;
  }
  EXPECT_EQ(rounded, again) << "a rerun repeats the bits";
}

// In the middle of a step, whose tensors and outcome it does not touch.
TEST(Split, WithinAStep) {
  RunRanks(3, "", [](int rank, gwComm_t comm) {
    gwComm_t group = nullptr;
    ASSERT_EQ(gwStepBegin(comm, 1), gwSuccess);
    ASSERT_EQ(gwCommSplit(comm, rank == 0 ? 1 : 0, 0, &group, nullptr), gwSuccess);
    gwStepOutcome_t outcome = gwStepAborted;
    ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess);
    EXPECT_EQ(outcome, gwStepCommitted);
    EXPECT_EQ(SumOver(group, rank), rank == 0 ? 0 : 3);
    EXPECT_EQ(gwCommDestroy(group), gwSuccess);
  });
}

// ---- ranks that cannot take part: all are told, nobody has a group, the parent goes on ----

struct Refusal {
  gwResult_t code;
  std::string says;
  gwResult_t (*split)(gwComm_t comm, gwComm_t* group);
};

void ExpectToldToAll(const Refusal& refusal) {
  constexpr int kOdd = 1;
  RunRanks(3, "", [&](int rank, gwComm_t comm) {
    gwComm_t group = comm;
    const gwResult_t result =
        rank == kOdd ? refusal.split(comm, &group) : gwCommSplit(comm, 0, 0, &group, nullptr);
    const std::string text = gwGetLastError(comm);
    EXPECT_EQ(result, rank == kOdd ? refusal.code : gwRemoteError) << text;
    EXPECT_NE(text.find(refusal.says), std::string::npos) << text;
    if (rank != kOdd) {
      EXPECT_NE(text.find("rank 1 failed"), std::string::npos) << text;
    }
    EXPECT_EQ(group, comm) << "written in spite of the error";
    ExpectUsable(comm);
    ASSERT_EQ(gwCommSplit(comm, 0, 0, &group, nullptr), gwSuccess) << gwGetLastError(comm);
    ExpectUsable(group);
    EXPECT_EQ(gwCommDestroy(group), gwSuccess);
  });
}

TEST(SplitRefused, ANegativeColor) {
  ExpectToldToAll({gwInvalidArgument, "color -5", [](gwComm_t comm, gwComm_t* group) {
                     return gwCommSplit(comm, -5, 0, group, nullptr);
                   }});
}

TEST(SplitRefused, NoPlaceForTheResult) {
  ExpectToldToAll({gwInvalidArgument, "newcomm is null", [](gwComm_t comm, gwComm_t*) {
                     return gwCommSplit(comm, 0, 0, nullptr, nullptr);
                   }});
}

TEST(SplitRefused, AnUninitialisedConfiguration) {
  ExpectToldToAll({gwInvalidArgument, "GW_CONFIG_INITIALIZER", [](gwComm_t comm, gwComm_t* group) {
                     const gwConfig_t config = {};
                     return gwCommSplit(comm, 0, 0, group, &config);
                   }});
}

TEST(SplitRefused, AMisspeltSetting) {
  ExpectToldToAll({gwInvalidArgument, "slice_elems", [](gwComm_t comm, gwComm_t* group) {
                     gwConfig_t config = GW_CONFIG_INITIALIZER;
                     config.settings = "slice_elem=5";
                     return gwCommSplit(comm, 0, 0, group, &config);
                   }});
}

// The start of one group fails, which its ranks find out; the rank of the other group is told.
TEST(SplitRefused, GroupsWhoseSettingsDiffer) {
  RunRanks(3, "", [](int rank, gwComm_t comm) {
    gwConfig_t config = GW_CONFIG_INITIALIZER;
    config.settings = rank == 1 ? "transport=loopback; seed=2" : "transport=loopback; seed=1";
    gwComm_t group = nullptr;
    const gwResult_t result = gwCommSplit(comm, rank == 2 ? 1 : 0, 0, &group, &config);
    const std::string text = gwGetLastError(comm);
    EXPECT_EQ(result, rank == 2 ? gwRemoteError : gwMismatch) << text;
    EXPECT_NE(text.find("seed"), std::string::npos) << text;
    EXPECT_EQ(group, nullptr);
    ExpectUsable(comm);
  });
}

// One rank does something else: all are told what.
// As long as a start may take, whatever operations may.
TEST(SplitRefused, WhereARankDoesNotCome) {
  std::latch told(kRanks - 1);
  RunRanks(kRanks, "init_timeout_ms=400", [&](int rank, gwComm_t comm) {
    if (rank == 2) {
      told.wait();
      EXPECT_EQ(gwBarrier(comm, nullptr), gwTimeout) << "it is told of the turn that ended";
    } else {
      gwComm_t group = nullptr;
      EXPECT_EQ(gwCommSplit(comm, 0, rank, &group, nullptr), gwTimeout);
      EXPECT_EQ(group, nullptr);
      const std::string error = gwGetLastError(comm);
      EXPECT_NE(error.find("GRADWIRE_INIT_TIMEOUT_MS"), error.npos) << error;
      told.count_down();
    }
    ExpectUsable(comm);
  });
}

TEST(SplitRefused, AnotherOperationIsAMismatch) {
  RunRanks(3, "", [](int rank, gwComm_t comm) {
    gwComm_t group = nullptr;
    float value = 1;
    gwResult_t result = rank == 2 ? gwAllReduce(&value, &value, 1, gwFloat32, gwSum, comm, nullptr)
                                  : gwCommSplit(comm, 0, 0, &group, nullptr);
    EXPECT_EQ(result, gwMismatch) << gwGetLastError(comm);
    EXPECT_EQ(group, nullptr);
    ExpectUsable(comm);
  });
}

// randk draws the elements that it sends: ranks that drew differently would add others.
TEST(SplitRefused, ARankThatMissedItDrawsLikeTheOthersInTheNext) {
  std::vector<std::vector<float>> sums(3);
  RunRanks(3, "", [&](int rank, gwComm_t comm) {
    gwComm_t group = nullptr;
    const gwResult_t result =
        rank == 2 ? gwBarrier(comm, nullptr) : gwCommSplit(comm, 0, 0, &group, nullptr);
    EXPECT_EQ(result, gwMismatch) << gwGetLastError(comm);
    ASSERT_EQ(gwCommSplit(comm, 0, 0, &group, nullptr), gwSuccess) << gwGetLastError(comm);
    sums[rank] = SumInAStep(group, "randk(0.05)");
    EXPECT_EQ(gwCommDestroy(group), gwSuccess);
  });
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

}  // namespace
}  // namespace gradwire
