// What holds for every function of the public header: it has a row in the table, and it keeps to
// the rules of threads and finalized communicators.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/capi_scene.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

std::set<std::string> DeclaredFunctions() {
  std::ifstream file("include/gradwire/gradwire.h");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::regex declaration(R"(GW_API\s[^;()]*?(gw[A-Z]\w*)\()");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

TEST(CapiTable, HasARowForEveryFunctionOfTheHeader) {
  const std::set<std::string> declared = DeclaredFunctions();
  ASSERT_GE(declared.size(), 30u) << "the header was not found or not understood";
  std::set<std::string> rows;
  for (const ApiFunction& function : ApiFunctions()) {
    EXPECT_TRUE(rows.insert(function.symbol).second) << function.symbol << " has two rows";
  }
  EXPECT_EQ(rows, declared) << "add a row to tests/conformance/capi_scene.cc";
}

TEST(CapiUsage, OnlyLooksAfterFinalize) {
  RunScene("", [](Scene& scene) {
    ASSERT_EQ(gwCommFinalize(scene.comm), gwSuccess) << gwGetLastError(scene.comm);
    for (const ApiFunction& function : ApiFunctions()) {
      if (function.rule == CallRule::kNoComm || function.symbol == std::string("gwCommDestroy"))
        continue;
      if (function.symbol == std::string("gwCommAbort")) continue;
      SCOPED_TRACE(function.symbol);
      const bool works = function.rule == CallRule::kWorks;
      EXPECT_EQ(function.call(scene), works ? gwInvalidUsage : gwSuccess) << scene.errors();
      if (works) {
        EXPECT_NE(scene.errors().find("finalized"), std::string::npos) << scene.errors();
      }
    }
  });
}

TEST(CapiUsage, OneThreadAtATime) {
  constexpr int kMostTries = 1000;
  std::atomic<bool> is_checked{false};
  RunScene("", [&](Scene& scene) {
    if (scene.rank != 0) {
      while (!is_checked) std::this_thread::yield();
      EXPECT_TRUE(AllReduceWorks(scene.rank, kSceneRanks, scene.comm));
      return;
    }
    // This thread stays in a call until the other rank takes part.
    std::atomic<bool> is_inside{false};
    std::thread second([&] {
      size_t bytes = 0;
      while (gwCommGetStats(scene.comm, nullptr, &bytes) != gwInvalidUsage) {
        std::this_thread::yield();
      }
      is_inside = true;
      for (const ApiFunction& function : ApiFunctions()) {
        if (function.rule == CallRule::kNoComm || function.symbol == std::string("gwCommAbort"))
          continue;
        SCOPED_TRACE(function.symbol);
        const bool refused = function.rule != CallRule::kAnyThread;
        EXPECT_EQ(function.call(scene), refused ? gwInvalidUsage : gwSuccess);
        if (refused) {
          EXPECT_NE(scene.errors().find("another thread"), std::string::npos) << scene.errors();
        }
      }
      is_checked = true;
    });
    // A look of the second thread's may be in the way, until one finds this thread inside.
    bool works = false;
    for (int tries = 0; !works && !is_inside && tries < kMostTries; ++tries) {
      works = AllReduceWorks(scene.rank, kSceneRanks, scene.comm);
    }
    EXPECT_TRUE(works) << gwGetLastError(scene.comm);
    second.join();
    EXPECT_TRUE(is_inside);
  });
}

TEST(CapiUsage, RequestsOutliveTheirCommunicator) {
  gwRequest_t left = nullptr;
  const std::vector<float> send(kSceneElems, 1.0f);
  std::vector<float> recv(kSceneElems);
  RunScene("abort_timeout_ms=200", [&](Scene& scene) {
    // Rank 1 never submits: rank 0's request cannot succeed.
    if (scene.rank == 0) {
      ASSERT_EQ(gwAllReduceTensor(scene.tensor, send.data(), recv.data(), gwSum, nullptr, &left),
                gwSuccess);
    }
  });
  EXPECT_NE(left, nullptr);
  EXPECT_EQ(gwRequestFree(left), gwSuccess);
}

}  // namespace
}  // namespace gradwire
