// The log belongs to the process: a later communicator changes what its own text names, and nothing
// else does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "gradwire/gradwire.h"

namespace gradwire {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A communicator of one rank, whose start is a line at level info.
void StartAndDestroy(const std::string& settings) {
  gwUniqueId id;
  ASSERT_EQ(gwGetUniqueId(&id), gwSuccess) << gwGetLastError(nullptr);
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = settings.c_str();
  gwComm_t comm = nullptr;
  ASSERT_EQ(gwCommInitRankConfig(&comm, 1, id, 0, &config), gwSuccess) << gwGetLastError(nullptr);
  ASSERT_EQ(gwCommDestroy(comm), gwSuccess);
}

TEST(ProcessLog, IsChangedOnlyByWhatIsNamed) {
  const std::string path = testing::TempDir() + "/process.log";
  StartAndDestroy("transport=loopback; debug=info; debug_file=" + path);
  EXPECT_THAT(Contents(path), testing::HasSubstr("rank 0 of 1 is ready"));
  // Neither the unique id nor the communicator names the log.
  const size_t before = Contents(path).size();
  StartAndDestroy("transport=loopback");
  EXPECT_GT(Contents(path).size(), before);
  const size_t after = Contents(path).size();
  StartAndDestroy("transport=loopback; debug=warn");
  EXPECT_EQ(Contents(path).size(), after) << "the level is another";
  StartAndDestroy("transport=loopback; debug=info");
  EXPECT_GT(Contents(path).size(), after) << "the file is as it was";
}

}  // namespace
}  // namespace gradwire
