#include "cli/report/report_builder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace gradwire {
namespace {

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

// With `more` members, which come first.
std::string PerfRow(const std::string& spec, int size, double eff_busbw,
                    const std::string& more = R"("redop": "sum", "root": -1)") {
  return "{" + more + R"(, "collective": "all-reduce", "spec": ")" + spec +
         R"(", "algorithm": "ring", "transport": "ucx", "ranks": 4, "size": )" +
         std::to_string(size) +
         R"(, "type": "float", "out_of_place": null, "in_place": {"time_us": 7.5, )"
         R"("time_p99_us": 9, "busbw": 0.5, "eff_busbw": )" +
         std::to_string(eff_busbw) +
         R"(, "wrong": 0}, "ratio": 2, "enc_us": 1, "dec_us": 1, "relerr": null})";
}

// With `more` members behind the rate.
std::string PerfFile(const std::string& name, const std::string& rows, const std::string& netlab,
                     const std::string& more = "") {
  return WriteFile(name, R"({"args": "gradwire perf", "netlab": )" + netlab + more +
                             R"(, "results": [)" + rows + "]}");
}

std::vector<std::string> NamesOf(const LinePlot& plot) {
  std::vector<std::string> names;
  for (const PlotSeries& series : plot.series) names.push_back(series.name);
  return names;
}

TEST(BuildReport, DrawsPerfsOfAllFilesTogether) {
  const std::vector<std::string> paths = {
      PerfFile("a.json", PerfRow("none", 1024, 1.5) + "," + PerfRow("none", 4096, 2.5),
               "\"1gbit\""),
      PerfFile("b.json", PerfRow("bf16", 1024, 3), "\"1gbit\"")};
  const StatusOr<ReportPage> page = BuildReport(paths);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  ASSERT_EQ(page->sections.size(), 1u);
  const ReportSection& section = page->sections[0];
  EXPECT_EQ(section.heading, "all-reduce, float, 4 ranks, 1gbit, ucx");
  ASSERT_EQ(section.plots.size(), 2u);
  EXPECT_EQ(NamesOf(section.plots[0]), (std::vector<std::string>{"none", "bf16"}));
  ASSERT_EQ(section.plots[0].series[0].points.size(), 2u);
  EXPECT_EQ(section.plots[0].series[0].points[1].x, 4096);
  EXPECT_EQ(section.plots[0].series[0].points[1].y, 2.5);
  ASSERT_EQ(section.tables.size(), 1u);
  EXPECT_EQ(section.tables[0].rows.size(), 3u);
  EXPECT_EQ(section.tables[0].rows[0], (std::vector<std::string>{"none", "1024", "7.5", "9", "1.5",
                                                                 "0.5", "2", "1", "1", "-", "0"}));
}

TEST(BuildReport, NamesLinesByWhatDiffers) {
  const std::string row = PerfRow("none", 1024, 1.5);
  const std::string a = PerfFile("a.json", row, "\"1gbit\""), b = PerfFile("b.json", row, "null");
  const std::string c = PerfFile("c.json", row, "null");
  EXPECT_EQ(NamesOf(BuildReport(std::vector{a})->sections[0].plots[0]),
            (std::vector<std::string>{"none"}));
  EXPECT_EQ(NamesOf(BuildReport(std::vector{a, b})->sections[0].plots[0]),
            (std::vector<std::string>{"1gbit", "none"}))
      << "b.json tells of no place";
  EXPECT_EQ(NamesOf(BuildReport(std::vector{b, c})->sections[0].plots[0]),
            (std::vector<std::string>{"b.json", "c.json"}));
}

TEST(BuildReport, NumbersLinesThatAreThereTwice) {
  const std::string none = PerfRow("none", 1024, 1.5), larger = PerfRow("none", 4096, 2);
  const std::string path = PerfFile("a.json", none + "," + larger + "," + none, "null");
  EXPECT_EQ(NamesOf(BuildReport(std::vector{path})->sections[0].plots[0]),
            (std::vector<std::string>{"none", "none (2)"}));
}

constexpr const char* kOneHost = R"(, "one_host": true)";
constexpr const char* kSeveralHosts = R"(, "one_host": false)";
constexpr const char* kUnknownHosts = R"(, "one_host": null)";

TEST(BuildReport, TellsWhereRanksWereOnlyWhereItKnows) {
  const std::string row = PerfRow("none", 1024, 1.5);
  const auto heading = [&](const std::string& netlab, const std::string& more) {
    return BuildReport(std::vector{PerfFile("a.json", row, netlab, more)})->sections[0].heading;
  };
  EXPECT_EQ(heading("null", kOneHost), "all-reduce, float, 4 ranks, one host, ucx");
  EXPECT_EQ(heading("null", kSeveralHosts), "all-reduce, float, 4 ranks, several hosts, ucx");
  EXPECT_EQ(heading("null", kUnknownHosts), "all-reduce, float, 4 ranks, ucx");
  EXPECT_EQ(heading("null", ""), "all-reduce, float, 4 ranks, ucx");
  EXPECT_EQ(heading("\"1gbit\"", kSeveralHosts), "all-reduce, float, 4 ranks, 1gbit, ucx");
  const std::string one = PerfFile("one.json", row, "null", kOneHost);
  const std::string several = PerfFile("several.json", row, "null", kSeveralHosts);
  EXPECT_EQ(NamesOf(BuildReport(std::vector{one, several})->sections[0].plots[0]),
            (std::vector<std::string>{"one host", "several hosts"}));
}

TEST(BuildReport, TellsOperationsAndRootsApart) {
  const std::string rows = PerfRow("none", 1024, 1, R"("redop": "sum", "root": -1)") + "," +
                           PerfRow("none", 1024, 2, R"("redop": "max", "root": -1)") + "," +
                           PerfRow("none", 1024, 3, R"("redop": "max", "root": 1)");
  const StatusOr<ReportPage> page = BuildReport(std::vector{PerfFile("a.json", rows, "null")});
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_EQ(NamesOf(page->sections[0].plots[0]),
            (std::vector<std::string>{"sum, root -1", "max, root -1", "max, root 1"}));
}

TEST(BuildReport, NamesFilesByWhatTellsThemApart) {
  const std::string row = PerfRow("none", 1024, 1.5);
  for (const char* folder : {"/v1", "/v2"})
    std::filesystem::create_directories(testing::TempDir() + folder);
  const std::string a = PerfFile("v1/perf.json", row, "null");
  const std::string b = PerfFile("v2/perf.json", row, "null");
  EXPECT_EQ(NamesOf(BuildReport(std::vector{a, b})->sections[0].plots[0]),
            (std::vector<std::string>{"v1/perf.json", "v2/perf.json"}));
  const Status twice = BuildReport(std::vector{a, b, a}).status();
  EXPECT_EQ(twice.code(), gwInvalidArgument);
  EXPECT_NE(twice.ToString().find("given twice"), std::string::npos) << twice.ToString();
}

TEST(BuildReport, HasNoPlotsOfABarrier) {
  const StatusOr<ReportPage> page =
      BuildReport(std::vector{PerfFile("a.json", PerfRow("none", 0, 0), "null")});
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_TRUE(page->sections[0].plots.empty());
  EXPECT_EQ(page->sections[0].tables[0].rows.size(), 1u);
}

// With `more` members; all results are equal.
std::string TrainFile(const std::string& more, int results = 1) {
  const std::string result = R"({"spec": "auto", "step_ms": 12.345, "step_p10_ms": 11,
          "step_p90_ms": 13, "compute_ms": 5, "exposed_ms": 7,
          "wire_bytes": 2500000, "relerr": 0.1, "ratio": 1, "ratio_low": null, "ratio_high": null,
          "blocks": [{"begin_s": [101, 102.5], "step_ms": [12, 13]}],
          "plan_changes": [{"step": 4, "change": "w none -> bf16", "why": "predicted",
                            "predicted_ms": 10, "was_ms": 12, "measured_ms": 11, "error": 0.012,
                            "bound": 0.1}]})";
  std::string all = result;
  for (int i = 1; i < results; ++i) all += "," + result;
  return WriteFile("train.json", R"({"args": "gradwire train", "netlab": null)" + more + R"(,
          "ranks": 2, "nominal_compute_ms": 5, "model": {"name": "mlp"}, "results": [)" +
                                     all + "]}");
}

TEST(BuildReport, DrawsTheStepsOfARunInTheirOrder) {
  const StatusOr<ReportPage> page = BuildReport(std::vector{TrainFile(kSeveralHosts)});
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  const ReportSection& section = page->sections.at(0);
  EXPECT_EQ(section.heading, "mlp, 2 ranks, several hosts");
  EXPECT_EQ(BuildReport(std::vector{TrainFile("")})->sections.at(0).heading, "mlp, 2 ranks");
  const std::vector<PlotPoint>& points = section.plots.at(0).series.at(0).points;
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].x, 0);
  EXPECT_EQ(points[1].x, 1.5);
  EXPECT_EQ(points[1].y, 13);
  ASSERT_EQ(section.tables.size(), 2u);
  EXPECT_EQ(section.tables[0].rows.at(0).at(6), "2.500");
  EXPECT_EQ(section.tables[1].rows.at(0).at(2), "w none -> bf16");
}

TEST(BuildReport, NumbersSettingsThatAreThereTwice) {
  const StatusOr<ReportPage> page = BuildReport(std::vector{TrainFile("", 2)});
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  const ReportSection& section = page->sections.at(0);
  EXPECT_EQ(NamesOf(section.plots.at(0)), (std::vector<std::string>{"auto", "auto (2)"}));
  EXPECT_EQ(section.tables.at(0).rows.at(1).at(0), "auto (2)");
  EXPECT_EQ(section.tables.at(1).rows.at(1).at(0), "auto (2)");
}

TEST(BuildReport, TakesPagesOfOthers) {
  const std::string text =
      R"({"page": 1, "title": "t", "subtitle": "s", "sections": [{"heading": "h", "plots": [
          {"heading": "p", "x": {"label": "x", "logarithmic": true}, "y": {"label": "y", "low": 1},
           "target": {"value": 2, "text": "two"},
           "series": [{"name": "n", "points": [[1, 2], [2, null]], "colour": 3, "dashed": true}]}],
          "tables": [{"columns": ["c", "d"], "rows": [["r", 1.5]]}], "notes": ["note"]}]})";
  const std::string page_path = WriteFile("page.json", text);
  const StatusOr<ReportPage> page = BuildReport(std::vector{page_path});
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_EQ(page->title, "t");
  EXPECT_EQ(page->subtitle, "s");
  const ReportSection& section = page->sections.at(0);
  const LinePlot& plot = section.plots.at(0);
  EXPECT_TRUE(plot.x.logarithmic);
  EXPECT_EQ(plot.y.low, 1.0);
  EXPECT_EQ(plot.target->text, "two");
  EXPECT_EQ(plot.series.at(0).points.size(), 1u) << "null is no point";
  EXPECT_EQ(plot.series.at(0).colour, 3u);
  EXPECT_TRUE(plot.series.at(0).dashed);
  EXPECT_EQ(section.tables.at(0).rows.at(0), (std::vector<std::string>{"r", "1.5"}));
  EXPECT_EQ(section.notes.at(0), "note");
  // With others it is a part of the report.
  const std::string perf = PerfFile("a.json", PerfRow("none", 1024, 1.5), "null");
  const StatusOr<ReportPage> both = BuildReport(std::vector{perf, page_path});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->title, "gradwire: measured");
  EXPECT_EQ(both->sections.size(), 2u);
}

TEST(BuildReport, SaysWhatIsWrong) {
  const auto status_of = [](const std::string& text) {
    return BuildReport(std::vector{WriteFile("bad.json", text)}).status();
  };
  EXPECT_EQ(BuildReport(std::vector<std::string>{"/nowhere/at/all"}).status().code(),
            gwInvalidArgument);
  const std::string series = R"({"page": 1, "title": "t", "sections": [{"plots": [{"x": )"
                             R"({"label": ""}, "y": {"label": ""}, "series": [)";
  for (const std::string& bad :
       {std::string("nonsense"), std::string("[]"), std::string("{}"),
        std::string(R"({"results": []})"), std::string(R"({"page": 1})"),
        std::string(R"({"page": 2, "title": "t"})"),
        std::string(R"({"page": 1, "title": "t", "sections": [{"notes": "text"}]})"),
        series + R"({"name": "n", "colour": -1}]}]}]})",
        series + R"({"name": "n", "colour": 2.5}]}]}]})",
        std::string(R"({"page": 1, "title": "t", "sections": [{"tables": [{"columns": 3}]}]})"),
        std::string(R"({"results": [{"collective": "all-reduce"}]})"),
        std::string(R"({"nominal_compute_ms": 1})")}) {
    const Status status = status_of(bad);
    EXPECT_EQ(status.code(), gwInvalidArgument) << bad;
    EXPECT_NE(status.ToString().find("bad.json"), std::string::npos) << status.ToString();
  }
}

}  // namespace
}  // namespace gradwire
