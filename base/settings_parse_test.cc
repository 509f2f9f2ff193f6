#include "base/settings_parse.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace gradwire {
namespace {

SettingRow Row(SettingType type, std::string_view name = "test_ms") {
  return {.name = name,
          .type = type,
          .scope = SettingScope::kCommunicator,
          .default_text = "",
          .choices = "auto|Ring",
          .min = -5,
          .max = 1000,
          .doc = ""};
}

// The integer that `text` means to `row`, or INT64_MIN where it is refused.
constexpr int64_t kRefused = INT64_MIN;
int64_t Integer(const SettingRow& row, std::string_view text,
                const std::vector<std::string>& names = {}) {
  const auto parsed = ParseSetting(row, text, names);
  return parsed ? parsed->integer : kRefused;
}

TEST(ParseSetting, Int) {
  const SettingRow row = Row(SettingType::kInt);
  EXPECT_EQ(Integer(row, "12"), 12);
  EXPECT_EQ(Integer(row, " -5\n"), -5);
  EXPECT_EQ(Integer(row, "1000"), 1000);
  for (const std::string_view bad :
       {"", " ", "-6", "1001", "1.5", "1e2", "12x", "x12", "0x10", "+1", "1 2", "1K",
        "9223372036854775808", "99999999999999999999999999"}) {
    EXPECT_EQ(Integer(row, bad), kRefused) << bad;
  }
}

TEST(ParseSetting, Bool) {
  const SettingRow row = Row(SettingType::kBool);
  for (const std::string_view on : {"on", "ON", "true", "Yes", "1"}) {
    EXPECT_EQ(Integer(row, on), 1) << on;
    EXPECT_EQ(ParseSetting(row, on, {})->text, "on");
  }
  for (const std::string_view off : {"off", "False", "no", "0"}) {
    EXPECT_EQ(Integer(row, off), 0) << off;
    EXPECT_EQ(ParseSetting(row, off, {})->text, "off");
  }
  for (const std::string_view bad : {"", "2", "o", "onn", "enabled"}) {
    EXPECT_EQ(Integer(row, bad), kRefused) << bad;
  }
}

TEST(ParseSetting, Bytes) {
  SettingRow row = Row(SettingType::kBytes);
  row.max = int64_t{4} << 40;
  EXPECT_EQ(Integer(row, "123"), 123);
  EXPECT_EQ(Integer(row, "123B"), 123);
  EXPECT_EQ(Integer(row, "64K"), 65536);
  EXPECT_EQ(Integer(row, "64 KiB"), 65536);
  EXPECT_EQ(Integer(row, "1m"), 1 << 20);
  EXPECT_EQ(Integer(row, "2G"), int64_t{2} << 30);
  EXPECT_EQ(Integer(row, "4T"), int64_t{4} << 40);
  for (const std::string_view bad : {"", "K", "1KB", "1.5M", "5T", "1P", "9000000000000000000K"}) {
    EXPECT_EQ(Integer(row, bad), kRefused) << bad;
  }
}

TEST(ParseSetting, Duration) {
  const SettingRow ms = Row(SettingType::kDuration, "wait_ms");
  EXPECT_EQ(Integer(ms, "250"), 250'000'000);
  EXPECT_EQ(Integer(ms, "250ms"), 250'000'000);
  EXPECT_EQ(Integer(ms, "1 s"), 1'000'000'000);
  EXPECT_EQ(Integer(ms, "7us"), 7'000);
  const SettingRow us = Row(SettingType::kDuration, "spin_us");
  EXPECT_EQ(Integer(us, "50"), 50'000);
  EXPECT_EQ(Integer(us, "1ms"), 1'000'000);
  for (const std::string_view bad : {"", "1001", "2s", "1h", "1.5", "5 min", "ms", "-6", "1d"}) {
    EXPECT_EQ(Integer(ms, bad), kRefused) << bad;
  }
}

TEST(ParseSetting, EnumTakesItsChoicesOnly) {
  const SettingRow row = Row(SettingType::kEnum);
  EXPECT_EQ(Integer(row, "AUTO"), 0);
  EXPECT_EQ(Integer(row, "ring"), 1);
  EXPECT_EQ(ParseSetting(row, "ring", {})->text, "Ring");
  for (const std::string_view bad : {"", "rin", "auto|Ring", "tree"}) {
    EXPECT_EQ(Integer(row, bad), kRefused) << bad;
  }
}

TEST(ParseSetting, NameTakesTheRegistrysToo) {
  const SettingRow row = Row(SettingType::kName);
  const std::vector<std::string> names = {"tree", "direct"};
  EXPECT_EQ(Integer(row, "Direct", names), 3);
  EXPECT_EQ(ParseSetting(row, "Direct", names)->text, "direct");
  EXPECT_EQ(Integer(row, "star", names), kRefused);
  EXPECT_EQ(ParseSetting(row, "star", {})->text, "star") << "no registry: any name";
  EXPECT_EQ(Integer(row, "", {}), kRefused);
}

TEST(DescribeAccepted, NamesTheLimits) {
  const std::vector<std::string> names = {"tree"};
  EXPECT_EQ(DescribeAccepted(Row(SettingType::kInt), {}), "a whole number from -5 to 1000");
  EXPECT_EQ(DescribeAccepted(Row(SettingType::kEnum), {}), "auto, Ring");
  EXPECT_EQ(DescribeAccepted(Row(SettingType::kName), names), "auto, Ring, tree");
  EXPECT_EQ(DescribeAccepted(Row(SettingType::kName), {}), "auto, Ring or a name");
  EXPECT_EQ(DescribeAccepted(Row(SettingType::kDuration), {}),
            "ms from -5 to 1000, or with a unit: us, ms, s, m, h");
}

TEST(EnvironmentName, IsThePrefixAndCapitals) {
  EXPECT_EQ(EnvironmentName(Row(SettingType::kInt, "slice_elems")), "GRADWIRE_SLICE_ELEMS");
}

}  // namespace
}  // namespace gradwire
