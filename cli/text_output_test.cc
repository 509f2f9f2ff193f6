#include "cli/text_output.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "cli/subcommand.h"

namespace gradwire {
namespace {

TEST(FormatColumns, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(FormatColumns({{"a", "long cell", "x"}, {"wide", "b"}, {}, {"", "", "y"}}),
            "a     long cell  x\n"
            "wide  b\n"
            "\n"
            "                 y\n");
  EXPECT_EQ(FormatColumns({}), "");
}

TEST(WriteTextTo, ReplacesAFile) {
  const std::string path = testing::TempDir() + "/text_output";
  ASSERT_TRUE(WriteTextTo(path, "a longer first text").ok());
  ASSERT_TRUE(WriteTextTo(path, "second").ok());
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "second");
}

TEST(WriteTextTo, SaysWhereItCannotWrite) {
  const Status status = WriteTextTo("/nowhere/at/all", "text");
  EXPECT_EQ(status.code(), gwSystemError);
  EXPECT_NE(status.ToString().find("/nowhere/at/all"), std::string::npos);
}

TEST(ReportError, TellsWrongArgumentsFromFailures) {
  EXPECT_EQ(ReportError("test", Status(gwInvalidArgument, "wrong")), kExitUsage);
  EXPECT_EQ(ReportError("test", Status(gwSystemError, "broken")), kExitFailed);
}

}  // namespace
}  // namespace gradwire
