#include "cli/perf/perf_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gradwire {
namespace {

PerfRow Sample(const std::string& spec) {
  return {.perf_case = {.spec = spec, .bytes = 1 << 20},
          .ranks = 4,
          .out_of_place = Timing{.median_us = 1000, .mean_us = 1100, .wrong = 0},
          .in_place = Timing{.median_us = 2000, .mean_us = 2000, .wrong = 3},
          .cost = {.wire_bytes = 200'000, .encode_us = 100, .decode_us = 50, .encodes_per_elem = 2},
          .relerr = 0.125,
          .algorithm = "direct",
          .transport = "ucx"};
}

TEST(PerfRow, BandwidthsAreThoseOfNcclTests) {
  const PerfRow row = Sample("none");
  EXPECT_DOUBLE_EQ(row.AlgBandwidth(*row.out_of_place), 1.048576);
  EXPECT_DOUBLE_EQ(row.BusBandwidth(*row.out_of_place), 1.5 * 1.048576);
  EXPECT_DOUBLE_EQ(row.EffectiveBusBandwidth(*row.in_place), 1.5 * 0.524288);
}

TEST(PerfRow, WithACodecTheBusCarriesWhatWasSent) {
  const PerfRow row = Sample("qsgd(bits=4)");
  EXPECT_DOUBLE_EQ(row.BusBandwidth(*row.out_of_place), 0.2);
  EXPECT_DOUBLE_EQ(row.EffectiveBusBandwidth(*row.out_of_place), 1.5 * 1.048576);
  EXPECT_DOUBLE_EQ(row.Ratio(), 1.5 * (1 << 20) / 200'000);
  EXPECT_DOUBLE_EQ(row.NetUs(), 850);
  EXPECT_EQ(row.wrong(), 3);
}

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kBroadcast, 4), 1);
}

TEST(CountOf, SizeIsThatOfTheLargerArray) {
  PerfCase c = {.collective = Collective::kAllGather, .bytes = 1024};
  EXPECT_EQ(CountOf(c, 4), 64);
  EXPECT_EQ(SendElems(c, 4), 64);
  EXPECT_EQ(RecvElems(c, 4), 256);
  EXPECT_EQ(InPlaceOffset(c, 3, 4), 192);
  c.collective = Collective::kReduceScatter;
  EXPECT_EQ(SendElems(c, 4), 256);
  EXPECT_EQ(RecvElems(c, 4), 64);
  c.collective = Collective::kAllReduce;
  EXPECT_EQ(CountOf(c, 4), 256);
  EXPECT_EQ(InPlaceOffset(c, 3, 4), 0);
}

size_t WordsOf(std::string_view line) {
  size_t words = 0;
  bool inside = false;
  for (const char c : line) {
    if (c != ' ' && !inside) ++words;
    inside = c != ' ';
  }
  return words;
}

TEST(Table, ARowHasTheColumnsOfTheHeader) {
  const std::string header = TableHeader();
  const size_t begin = header.find("size");
  const std::string names = header.substr(begin, header.find('\n', begin) - begin);
  for (const char* name : {"#wrong", "wire_bytes", "ratio", "encodes_per_elem", "enc_us", "net_us",
                           "dec_us", "relerr", "eff_busbw"}) {
    EXPECT_NE(names.find(name), names.npos) << name;
  }
  for (const char* spec : {"none", "qsgd(bits=4)"}) {
    PerfRow row = Sample(spec);
    EXPECT_EQ(TableRow(row).size(), names.size() + begin - header.rfind('\n', begin) - 1);
    EXPECT_EQ(WordsOf(TableRow(row)), WordsOf(names));
    row.in_place.reset();
    row.relerr.reset();
    EXPECT_EQ(WordsOf(TableRow(row)), WordsOf(names));
  }
}

TEST(Csv, EveryLineHasTheColumnsOfTheHeader) {
  const std::string lines = CsvLines(Sample("qsgd(bits=4)"));
  const auto commas = [](std::string_view text) {
    return std::count(text.begin(), text.end(), ',');
  };
  const size_t feed = lines.find('\n');
  EXPECT_EQ(commas(lines.substr(0, feed)), commas(CsvHeader()));
  EXPECT_EQ(commas(lines.substr(feed)), commas(CsvHeader()));
  EXPECT_EQ(lines.substr(0, feed).find(",,"), std::string::npos) << "costs are of these runs";
  EXPECT_NE(lines.substr(feed).find(",,,,,,,"), std::string::npos) << "and not of those in place";
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
}

TEST(Json, MissingValuesAreNull) {
  PerfRow row = Sample("none");
  row.in_place.reset();
  row.relerr.reset();
  row.out_of_place->wrong = -1;
  const auto json = nlohmann::json::parse(RowJson(row).dump());
  EXPECT_TRUE(json["in_place"].is_null());
  EXPECT_TRUE(json["relerr"].is_null());
  EXPECT_TRUE(json["out_of_place"]["wrong"].is_null());
  EXPECT_EQ(json["size"], 1 << 20);
}

}  // namespace
}  // namespace gradwire
