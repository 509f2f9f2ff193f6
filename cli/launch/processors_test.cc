#include "cli/launch/processors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "runtime/start/usable_cores.h"

namespace gradwire {
namespace {

using testing::ElementsAre;

TEST(DivideCores, NeighboursStayTogether) {
  const std::vector<int> cores = {0, 1, 2, 3};
  EXPECT_THAT(DivideCores(cores, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

// As in a container that has been given some.
TEST(DivideCores, EachOfThoseAllowedHasOneRank) {
  const std::vector<int> cores = {2, 5, 6, 11, 1499, 1500};
  EXPECT_THAT(DivideCores(cores, 3),
              ElementsAre(ElementsAre(2, 5), ElementsAre(6, 11), ElementsAre(1499, 1500)));
}

// As the kernel tells of two packages of two cores of two threads, numbered as it often does.
TEST(InOrderOfTopology, ThreadsOfACoreAndCoresOfAPackageAreNeighbours) {
  const std::filesystem::path system = testing::TempDir() + "/cpus";
  for (int core = 0; core < 8; ++core) {
    const std::filesystem::path topology = system / fmt::format("cpu{}", core) / "topology";
    std::filesystem::create_directories(topology);
    std::ofstream(topology / "physical_package_id") << core % 2 << '\n';
    std::ofstream(topology / "core_id") << core / 2 % 2 << '\n';
  }
  EXPECT_THAT(InOrderOfTopology({0, 1, 2, 3, 4, 5, 6, 7}, system),
              ElementsAre(0, 4, 2, 6, 1, 5, 3, 7));
  EXPECT_THAT(InOrderOfTopology({3, 4, 5, 7}, system), ElementsAre(4, 5, 3, 7));
  EXPECT_THAT(InOrderOfTopology({2, 3, 5}, "/no/such"), ElementsAre(2, 3, 5));
}

TEST(InOrderOfTopology, LosesNoneOfTheCoresThatThereAre) {
  EXPECT_THAT(InOrderOfTopology(UsableCores()), testing::UnorderedElementsAreArray(UsableCores()));
}

TEST(KeepTo, HoldsAThreadToThem) {
  const std::vector<int> all = UsableCores(), one = {all.back()};
  std::vector<int> held;
  std::thread([&] {
    EXPECT_TRUE(KeepTo(one));
    held = UsableCores();
    EXPECT_FALSE(KeepTo({})) << "nowhere to run";
  }).join();
  EXPECT_EQ(held, one);
  EXPECT_EQ(UsableCores(), all);
}

TEST(TryToKeepTo, ChangesNothingAndSaysWhatTheSystemSays) {
  const std::vector<int> all = UsableCores(), one = {all.back()};
  EXPECT_TRUE(TryToKeepTo(one).ok());
  EXPECT_EQ(UsableCores(), all);
  EXPECT_THAT(TryToKeepTo({}).ToString(), testing::HasSubstr("Invalid argument"));
}

TEST(AllowedCores, AreMoreThanThoseThatAThreadIsHeldTo) {
  const std::vector<int> all = AllowedCores(), one = {all.back()};
  std::vector<int> allowed, held;
  std::thread([&] {
    EXPECT_TRUE(KeepTo(one));
    allowed = AllowedCores();
    held = UsableCores();
  }).join();
  EXPECT_EQ(allowed, all);
  EXPECT_EQ(held, one) << "asking changed it";
}

}  // namespace
}  // namespace gradwire
