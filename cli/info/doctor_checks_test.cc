#include "cli/info/doctor_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace gradwire {
namespace {

TEST(JudgeSharedMemory, GrowsWithThePairsOfRanks) {
  constexpr int64_t kDockerDefault = 64 << 20;
  EXPECT_EQ(JudgeSharedMemory("/dev/shm", kDockerDefault, 4).health, Health::kOk);
  const HealthFinding many = JudgeSharedMemory("/dev/shm", kDockerDefault, 16);
  // Most jobs do not use it: no reason to return a failure.
  EXPECT_EQ(many.health, Health::kWarning);
  EXPECT_NE(many.what.find("for transport ucx only"), std::string::npos) << many.what;
  EXPECT_NE(many.advice.find("--shm-size"), std::string::npos);
}

TEST(JudgeCores, WarnsOnlyWhereRanksOutnumberCores) {
  EXPECT_EQ(JudgeCores(8, 4).health, Health::kOk);
  EXPECT_EQ(JudgeCores(4, 4).health, Health::kOk);
  EXPECT_EQ(JudgeCores(2, 4).health, Health::kWarning);
  EXPECT_FALSE(JudgeCores(2, 4).advice.empty());
}

TEST(JudgeOpenFiles, SaysWhatToSet) {
  EXPECT_EQ(JudgeOpenFiles(1024, 8).health, Health::kOk);
  EXPECT_NE(JudgeOpenFiles(64, 8).advice.find("ulimit -n 4096"), std::string::npos);
}

TEST(JudgeTransport, PassesTheReasonOn) {
  EXPECT_EQ(JudgeTransport("ucx", Status::Ok(), true).health, Health::kOk);
  const Status unusable(gwTransportUnavailable, "no libucp.so.0", "Install libucx0");
  EXPECT_EQ(JudgeTransport("ucx", unusable, false).health, Health::kWarning);
  const HealthFinding missing = JudgeTransport("ucx", unusable, true);
  EXPECT_EQ(missing.health, Health::kFailure);
  EXPECT_EQ(missing.what, "no libucp.so.0");
  EXPECT_EQ(missing.advice, "Install libucx0");
}

TEST(JudgeSettings, EveryProblemIsAFinding) {
  EXPECT_EQ(JudgeSettings(Status::Ok(), {}).at(0).health, Health::kOk);
  EXPECT_EQ(JudgeSettings(Status::Ok(), {"a", "b"}).size(), 2u);
  EXPECT_EQ(JudgeSettings(Status(gwInvalidArgument, "bad"), {}).at(0).health, Health::kFailure);
}

TEST(Examine, LooksIntoTheFolderThatUcxUses) {
  const auto looked_into = [](const std::string& folder) {
    return std::ranges::any_of(
        Examine(2), [&](const HealthFinding& finding) { return finding.check == folder; });
  };
  EXPECT_TRUE(looked_into("/dev/shm"));
  setenv("UCX_POSIX_DIR", testing::TempDir().c_str(), 1);
  EXPECT_TRUE(looked_into(testing::TempDir()));
  EXPECT_FALSE(looked_into("/dev/shm"));
  unsetenv("UCX_POSIX_DIR");
}

TEST(Examine, LooksAtEverything) {
  const std::vector<HealthFinding> findings = Examine(2);
  EXPECT_GE(findings.size(), 7u);
  for (const HealthFinding& finding : findings) {
    EXPECT_FALSE(finding.check.empty());
    EXPECT_FALSE(finding.what.empty());
    EXPECT_TRUE(finding.health != Health::kFailure || !finding.advice.empty()) << finding.what;
  }
}

TEST(Findings, ReadAsTextAndAsJson) {
  const std::vector<HealthFinding> findings = {
      {"cores", Health::kWarning, "2 for 4", "fewer ranks"}};
  EXPECT_EQ(FindingsText(findings), "warning  cores: 2 for 4\n         -> fewer ranks\n");
  const auto json = nlohmann::json::parse(FindingsJson(findings));
  EXPECT_EQ(json["findings"][0]["health"], "warning");
}

}  // namespace
}  // namespace gradwire
