// Which transports UCX may choose, and what is told where it has none.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/lib/forked_ranks.h"
#include "tests/lib/ucx_node.h"
#include "transports/ucx/ucx_transport.h"

namespace gradwire {
namespace {

// The error of rank 0 where each rank has its own UCX_TLS.
std::string ErrorWith(const std::vector<std::string>& tls, const TransportOptions& options = {}) {
  const auto body = [&](ForkedRank& rank) -> std::string {
    return UcxNode(rank, tls[rank.rank()], options).error;
  };
  const std::vector<ForkedResult> results = RunForked(static_cast<int>(tls.size()), body);
  return results[0].returned ? results[0].text : "rank 0 did not return";
}

TEST(UcxSetupTest, SharedMemoryIsTheChoiceOnOneHost) {
  const auto body = [](ForkedRank& rank) -> std::string {
    UcxNode node(rank, "");
    if (!node.error.empty()) return node.error;
    rank.Barrier();
    const bool shared = node.transport->caps().max_fragment_bytes == 32 << 10;
    return shared && !node.transport->caps().detects_peer_death ? "" : "it is something else";
  };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

// Where UCX has made the files that this process has open.
std::vector<std::string> FilesOfUcx() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    std::string file = std::filesystem::read_symlink(entry.path(), gone).string();
    if (file.find("ucx_shm_posix") != file.npos) files.push_back(std::move(file));
  }
  return files;
}

TEST(UcxSetupTest, FilesAreMadeInAFolderThatIsGoneThen) {
  const auto body = [](ForkedRank& rank) -> std::string {
    UcxNode node(rank, "");
    rank.Barrier();
    if (!node.error.empty()) return node.error;
    const std::vector<std::string> files = FilesOfUcx();
    for (const std::string& file : files) {
      if (file.find("/dev/shm/gradwire-ucx.") != 0 || !file.ends_with(" (deleted)")) return file;
    }
    return files.empty() ? "there is none" : "";
  };
  EXPECT_EQ(Failures(RunForked(2, body)), "");
}

TEST(UcxSetupTest, SelfAloneFailsClearly) {
  const std::string error = ErrorWith({"self", "self"});
  EXPECT_NE(error.find("UCX_TLS=self"), error.npos) << error;
  EXPECT_NE(error.find("reaches no other process"), error.npos) << error;
}

TEST(UcxSetupTest, DifferentChoicesFailClearly) {
  const std::string error = ErrorWith({"posix,self", "tcp,self"});
  EXPECT_NE(error.find("shared memory"), error.npos) << error;
  EXPECT_NE(error.find("tcp"), error.npos) << error;
}

TEST(UcxSetupTest, UnknownTransportFailsClearly) {
  const std::string error = ErrorWith({"nonsense", "nonsense"});
  EXPECT_NE(error.find("ucx"), error.npos) << error;
  EXPECT_NE(error.find("nonsense"), error.npos) << error;
}

TEST(UcxSetupTest, UnknownInterfaceFailsClearly) {
  const std::string error =
      ErrorWith({"", ""}, {.interface = "gwnone0", .all_ranks_on_host = false});
  EXPECT_NE(error.find("'gwnone0'"), error.npos) << error;
  EXPECT_NE(error.find("lo"), error.npos) << error;
}

TEST(UcxSetupTest, ArgumentsAreChecked) {
  const TransportOptions bad[] = {
      {.rank = 2, .world_size = 2}, {.rank = -1, .world_size = 2}, {.rank = 0, .world_size = 0}};
  for (const TransportOptions& options : bad) {
    const auto made = MakeUcxTransport(options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), gwInvalidArgument);
  }
}

}  // namespace
}  // namespace gradwire
