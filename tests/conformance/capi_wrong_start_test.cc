// Starting and ending a communicator with wrong arguments.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/conformance/capi_wrong_call.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

gwResult_t StartWith(Scene& s, const char* settings) {
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = settings;
  return gwCommInitEnv(&s.new_comm, &config);
}

gwResult_t StartRank(Scene& s, int ranks, int rank) {
  gwUniqueId id;
  if (const gwResult_t made = gwGetUniqueId(&id); made != gwSuccess) return made;
  return gwCommInitRank(&s.new_comm, ranks, id, rank);
}

constexpr WrongCall kCalls[] = {
    {"version null", gwInvalidArgument, "version is null",
     [](Scene&) { return gwGetVersion(nullptr); }},
    {"id null", gwInvalidArgument, "id is null", [](Scene&) { return gwGetUniqueId(nullptr); }},
    {"no ranks", gwInvalidArgument, "nranks", [](Scene& s) { return StartRank(s, 0, 0); }},
    {"negative ranks", gwInvalidArgument, "nranks", [](Scene& s) { return StartRank(s, -2, 0); }},
    {"negative rank", gwInvalidArgument, "rank", [](Scene& s) { return StartRank(s, 2, -1); }},
    {"rank too large", gwInvalidArgument, "rank", [](Scene& s) { return StartRank(s, 2, 2); }},
    {"an id of zeros", gwInvalidArgument, "unique id",
     [](Scene& s) { return gwCommInitRank(&s.new_comm, 1, gwUniqueId{}, 0); }},
    {"a damaged id", gwInvalidArgument, "unique id",
     [](Scene& s) {
       gwUniqueId id;
       if (const gwResult_t made = gwGetUniqueId(&id); made != gwSuccess) return made;
       id.internal[60] = static_cast<char>(id.internal[60] ^ 4);
       return gwCommInitRank(&s.new_comm, 1, id, 0);
     }},
    {"an id used twice", gwInvalidUsage, "unique id",
     [](Scene& s) {
       gwUniqueId id;
       if (const gwResult_t made = gwGetUniqueId(&id); made != gwSuccess) return made;
       gwComm_t first = nullptr;
       if (const gwResult_t r = gwCommInitRank(&first, 1, id, 0); r != gwSuccess) return r;
       if (const gwResult_t r = gwCommDestroy(first); r != gwSuccess) return r;
       return gwCommInitRank(&s.new_comm, 1, id, 0);
     }},
    {"comm null", gwInvalidArgument, "comm is null",
     [](Scene&) { return gwCommInitRank(nullptr, 1, gwUniqueId{}, 0); }},
    {"comm null, config", gwInvalidArgument, "comm is null",
     [](Scene&) { return gwCommInitRankConfig(nullptr, 1, gwUniqueId{}, 0, nullptr); }},
    {"comm null, environment", gwInvalidArgument, "comm is null",
     [](Scene&) { return gwCommInitEnv(nullptr, nullptr); }},
    {"a config of zeros", gwInvalidArgument, "GW_CONFIG_INITIALIZER",
     [](Scene& s) {
       const gwConfig_t config = {};
       return gwCommInitEnv(&s.new_comm, &config);
     }},
    {"a config without size", gwInvalidArgument, "GW_CONFIG_INITIALIZER",
     [](Scene& s) {
       gwConfig_t config = GW_CONFIG_INITIALIZER;
       config.size = 3;
       return gwCommInitEnv(&s.new_comm, &config);
     }},
    {"a setting misspelt", gwInvalidArgument, "slice_elems",
     [](Scene& s) { return StartWith(s, "slice_elem=5"); }},
    {"a setting without value", gwInvalidArgument, "name=value",
     [](Scene& s) { return StartWith(s, "window"); }},
    {"a value that is no number", gwInvalidArgument, "window",
     [](Scene& s) { return StartWith(s, "window=many"); }},
    {"a value out of range", gwInvalidArgument, "window",
     [](Scene& s) { return StartWith(s, "window=1000"); }},
    {"a choice misspelt", gwInvalidArgument, "propagate",
     [](Scene& s) { return StartWith(s, "nonfinite=propagat"); }},
    {"a transport misspelt", gwInvalidArgument, "loopback",
     [](Scene& s) { return StartWith(s, "transport=loopbak"); }},
    {"an algorithm misspelt", gwInvalidArgument, "ring",
     [](Scene& s) { return StartWith(s, "algorithm=rng"); }},
    {"a codec misspelt", gwInvalidArgument, "qsgd",
     [](Scene& s) { return StartWith(s, "compress=qsdg(bits=4)"); }},
    {"a key misspelt", gwInvalidArgument, "bits",
     [](Scene& s) { return StartWith(s, "compress=qsgd(bit=4)"); }},
    {"finalize of null", gwInvalidArgument, "communicator is null",
     [](Scene&) { return gwCommFinalize(nullptr); }},
    {"abort of null", gwInvalidArgument, "communicator is null",
     [](Scene&) { return gwCommAbort(nullptr); }},
    {"async error of null", gwInvalidArgument, "communicator is null",
     [](Scene&) {
       gwResult_t error;
       return gwCommGetAsyncError(nullptr, &error);
     }},
    {"async error to null", gwInvalidArgument, "error is null",
     [](Scene& s) { return gwCommGetAsyncError(s.comm, nullptr); }},
    {"count of null", gwInvalidArgument, "communicator is null",
     [](Scene& s) { return gwCommCount(nullptr, &s.number); }},
    {"count to null", gwInvalidArgument, "count is null",
     [](Scene& s) { return gwCommCount(s.comm, nullptr); }},
    {"rank of null", gwInvalidArgument, "communicator is null",
     [](Scene& s) { return gwCommUserRank(nullptr, &s.number); }},
    {"rank to null", gwInvalidArgument, "rank is null",
     [](Scene& s) { return gwCommUserRank(s.comm, nullptr); }},
};

TEST(CapiWrongStart, IsRefusedWithoutEffect) { CheckWrongCalls(kCalls); }

TEST(CapiWrongStart, DestroyOfNothingIsFine) { EXPECT_EQ(gwCommDestroy(nullptr), gwSuccess); }

// The recorder must not keep a job from running.
TEST(CapiWrongStart, AFolderThatCannotBeWrittenIsNoError) {
  RunRanks(2, "recorder_dir=/proc/no/such/folder", [](int rank, gwComm_t comm) {
    EXPECT_TRUE(AllReduceWorks(rank, 2, comm)) << gwGetLastError(comm);
  });
}

TEST(CapiWrongStart, EveryCodeHasAText) {
  const std::string unknown = gwGetErrorString(static_cast<gwResult_t>(77));
  EXPECT_FALSE(unknown.empty());
  for (int code : {0, 1, 2, 3, 4, 5, 6, 7, 8, 100, 101, 102, 103, 110, 120, 121, 122}) {
    const std::string text = gwGetErrorString(static_cast<gwResult_t>(code));
    EXPECT_FALSE(text.empty()) << code;
    EXPECT_NE(text, unknown) << code;
  }
}

// As a program that measures several settings does where it has one rank.
TEST(CapiWrongStart, OneRankMayStartTwiceByOneEnvironment) {
  gwComm_t first = nullptr, second = nullptr;
  ASSERT_EQ(gwCommInitEnv(&first, nullptr), gwSuccess) << gwGetLastError(nullptr);
  EXPECT_EQ(gwCommInitEnv(&second, nullptr), gwSuccess) << gwGetLastError(nullptr);
  EXPECT_EQ(gwCommDestroy(second), gwSuccess);
  EXPECT_EQ(gwCommDestroy(first), gwSuccess);
}

// A caller compiled with a later header passes a longer struct; with an earlier one a shorter.
TEST(CapiWrongStart, StructsOfOtherVersionsAreRead) {
  struct {
    gwConfig_t config = GW_CONFIG_INITIALIZER;
    char later[32] = {};
  } longer;
  longer.config.size = sizeof longer;
  longer.config.settings = "window=2";
  gwComm_t comm = nullptr;
  ASSERT_EQ(gwCommInitEnv(&comm, &longer.config), gwSuccess) << gwGetLastError(nullptr);
  EXPECT_EQ(gwCommDestroy(comm), gwSuccess);
  gwConfig_t shorter = GW_CONFIG_INITIALIZER;
  shorter.size = offsetof(gwConfig_t, settings);
  std::memset(&shorter.settings, 0x5A, sizeof shorter.settings);
  ASSERT_EQ(gwCommInitEnv(&comm, &shorter), gwSuccess) << gwGetLastError(nullptr);
  EXPECT_EQ(gwCommDestroy(comm), gwSuccess);
}

}  // namespace
}  // namespace gradwire
