#include "cli/perf/perf_report.h"

#include <gtest/gtest.h>

#include "cli/subcommand.h"

namespace gradwire {
namespace {

PerfRow RowWith(int64_t wrong_out_of_place, int64_t wrong_in_place) {
  return {.perf_case = {.bytes = 1024},
          .ranks = 2,
          .out_of_place = Timing{.median_us = 10, .wrong = wrong_out_of_place},
          .in_place = Timing{.median_us = 10, .wrong = wrong_in_place},
          .algorithm = "ring",
          .transport = "loopback"};
}

// What the command prints for these rows.
std::string Printed(PerfReport* report, const std::vector<PerfRow>& rows) {
  testing::internal::CaptureStdout();
  report->PrintHeader({});
  for (const PerfRow& row : rows) report->Add(row);
  report->PrintFooter({});
  return testing::internal::GetCapturedStdout();
}

TEST(PerfReport, AWrongResultOfEitherWayFails) {
  const PerfOptions options;
  for (const auto& [out_of_place, in_place] : {std::pair{3, 0}, std::pair{0, 3}}) {
    PerfReport report(options);
    const std::string text =
        Printed(&report, {RowWith(0, 0), RowWith(out_of_place, in_place), RowWith(0, 0)});
    EXPECT_EQ(report.exit_code(), kExitFailed);
    EXPECT_NE(text.find("# Out of bounds values : 3 FAILED"), text.npos) << text;
  }
}

TEST(PerfReport, RightAndUncheckedResultsPass) {
  const PerfOptions options;
  PerfReport report(options);
  const std::string text = Printed(&report, {RowWith(0, 0), RowWith(-1, -1)});
  EXPECT_EQ(report.exit_code(), kExitOk);
  EXPECT_NE(text.find("# Out of bounds values : 0 OK"), text.npos) << text;
}

}  // namespace
}  // namespace gradwire
