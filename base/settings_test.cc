#include "base/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace gradwire {
namespace {

bool Has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

TEST(SettingsTable, RowsAreSound) {
  std::set<std::string_view> names;
  for (const SettingRow& row : kSettings) {
    SCOPED_TRACE(row.name);
    EXPECT_TRUE(names.insert(row.name).second) << "twice";
    EXPECT_TRUE(std::all_of(row.name.begin(), row.name.end(),
                            [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; }));
    EXPECT_TRUE(ParseSetting(row, row.default_text, {}).has_value()) << "default not accepted";
    EXPECT_FALSE(row.doc.empty());
    EXPECT_EQ(row.doc.find_first_of("|\n"), row.doc.npos) << "breaks the table in settings.md";
    const bool chooses = row.type == SettingType::kEnum || row.type == SettingType::kName;
    EXPECT_EQ(chooses, !row.choices.empty());
    const bool unit = row.name.ends_with("_ms") || row.name.ends_with("_us");
    EXPECT_EQ(row.type == SettingType::kDuration, unit);
  }
}

TEST(SettingsTable, OtherVariablesAreNoSettings) {
  for (const OtherVariable& other : kOtherVariables) {
    EXPECT_TRUE(other.name.starts_with(kSettingPrefix));
    for (const SettingRow& row : kSettings) EXPECT_NE(EnvironmentName(row), other.name);
  }
}

TEST(Settings, DefaultsAreTheTables) {
  const Settings settings;
  EXPECT_EQ(settings.Int("window"), 0);
  EXPECT_EQ(settings.Text("compress"), "none");
  EXPECT_EQ(settings.Text("transport"), "auto");
  EXPECT_TRUE(settings.Bool("transaction"));
  EXPECT_FALSE(settings.Bool("insecure"));
  EXPECT_EQ(settings.DurationNs("heartbeat_timeout_ms"), 10'000'000'000);
  EXPECT_EQ(settings.DurationNs("spin_us"), 5'000);
  EXPECT_EQ(settings.DurationNs("op_timeout_ms"), 600'000'000'000);
  EXPECT_EQ(settings.Text("host_id"), "");
  EXPECT_EQ(settings.Text("recorder_dir"), "");
  EXPECT_EQ(settings.Text("record_messages"), "");
  EXPECT_EQ(settings.Choice("nonfinite"), 0);
  EXPECT_FALSE(settings.is_set("window"));
  EXPECT_TRUE(Settings::Load({}).ok());
}

TEST(Settings, StrongerSourcesWinAndAreRemembered) {
  SettingsInput in;
  in.toml_text = "window = 5\nslice_elems = 5\nseed = 5\n";
  in.environment = {{"GRADWIRE_WINDOW", "6"}, {"GRADWIRE_SLICE_ELEMS", "6"}};
  in.api = {{"window", "7"}};
  const auto settings = Settings::Load(in);
  ASSERT_TRUE(settings.ok()) << settings.status().ToString();
  EXPECT_EQ(settings->Int("window"), 7);
  EXPECT_EQ(settings->Int("slice_elems"), 6);
  EXPECT_EQ(settings->Int("seed"), 5);
  EXPECT_EQ(settings->source("window"), SettingSource::kApi);
  EXPECT_EQ(settings->source("slice_elems"), SettingSource::kEnvironment);
  EXPECT_EQ(settings->source("seed"), SettingSource::kFile);
  EXPECT_EQ(settings->source("port"), SettingSource::kDefault);
  const std::string table = settings->ToTable();
  EXPECT_TRUE(Has(table, " GRADWIRE_SLICE_ELEMS ")) << table;
  EXPECT_TRUE(Has(table, " gradwire.toml:3 ")) << table;
}

TEST(Settings, DebuggingAidsComeFromTheEnvironment) {
  SettingsInput in;
  in.environment = {{"GRADWIRE_HOST_ID", "rack7-a"},
                    {"GRADWIRE_RECORD_MESSAGES", "/tmp/sent"},
                    {"GRADWIRE_RECORDER_DIR", "/tmp/rec"},
                    {"GRADWIRE_OP_TIMEOUT_MS", "90s"}};
  const auto settings = Settings::Load(in);
  ASSERT_TRUE(settings.ok()) << settings.status().ToString();
  EXPECT_TRUE(settings->warnings().empty());
  EXPECT_EQ(settings->Text("host_id"), "rack7-a");
  EXPECT_EQ(settings->Text("record_messages"), "/tmp/sent");
  EXPECT_EQ(settings->Text("recorder_dir"), "/tmp/rec");
  EXPECT_EQ(settings->DurationNs("op_timeout_ms"), 90'000'000'000);
}

TEST(Settings, EmptyVariableCountsAsUnset) {
  SettingsInput in;
  in.toml_text = "window = 5\n";
  in.environment = {{"GRADWIRE_WINDOW", ""}};
  const auto settings = Settings::Load(in);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->Int("window"), 5);
}

struct BadInput {
  const char* what;
  SettingsInput in;
  std::vector<std::string_view> parts;  // of the error's text
};

class BadSettings : public testing::TestWithParam<BadInput> {};

TEST_P(BadSettings, ErrorSaysWhatWhereAndWhatElse) {
  const Status status = Settings::Load(GetParam().in).status();
  EXPECT_EQ(status.code(), gwInvalidArgument);
  for (const std::string_view part : GetParam().parts) {
    EXPECT_TRUE(Has(status.ToString(), part)) << part << " is not in: " << status.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(
    , BadSettings,
    testing::Values(
        BadInput{"unknown_in_file",
                 {.toml_text = "\nwindwo = 4\n"},
                 {"'windwo'", "gradwire.toml:2", "Did you mean 'window'?"}},
        BadInput{"unknown_in_api",
                 {.api = {{"transporter", "ucx"}}},
                 {"'transporter'", "from API", "Did you mean 'transport'?"}},
        BadInput{"like_no_other",
                 {.api = {{"quux", "ucx"}}},
                 {"'quux' (from API). gradwire info -c lists the settings"}},
        BadInput{"number_out_of_range",
                 {.environment = {{"GRADWIRE_WINDOW", "65"}}},
                 {"'window'", "'65'", "GRADWIRE_WINDOW", "a whole number from 0 to 64"}},
        BadInput{"unknown_choice",
                 {.environment = {{"GRADWIRE_NONFINITE", "skp"}}},
                 {"'skp'", "propagate, skip, error", "Did you mean 'skip'?"}},
        BadInput{"unknown_name",
                 {.environment = {{"GRADWIRE_ALGORITHM", "rnig"}},
                  .names = {{"algorithm", {"ring", "tree"}}}},
                 {"'rnig'", "auto, ring, tree", "Did you mean 'ring'?"}},
        BadInput{"hidden_by_a_stronger_source",
                 {.api = {{"window", "4"}}, .toml_text = "window = -1\n"},
                 {"'window'", "gradwire.toml:1"}},
        BadInput{"launch_setting_in_file",
                 {.toml_text = "rank = 1\n"},
                 {"'rank'", "gradwire.toml:1", "GRADWIRE_RANK"}},
        BadInput{"no_bound",
                 {.environment = {{"GRADWIRE_OP_TIMEOUT_MS", "0"}}},
                 {"'op_timeout_ms'", "'0'", "ms from 1 to"}},
        BadInput{
            "host_in_file", {.toml_text = "host_id = \"a\"\n"}, {"'host_id'", "GRADWIRE_HOST_ID"}},
        BadInput{"broken_file", {.toml_text = "window =\n"}, {"gradwire.toml:1", "TOML"}},
        BadInput{"heartbeats_contradict",
                 {.environment = {{"GRADWIRE_HEARTBEAT_MS", "10s"}}},
                 {"heartbeat_timeout_ms = 10000 (from default)", "GRADWIRE_HEARTBEAT_MS"}},
        BadInput{"one_heartbeat_in_its_timeout",
                 {.api = {{"heartbeat_ms", "501"}, {"heartbeat_timeout_ms", "1000"}}},
                 {"heartbeat_timeout_ms = 1000 (from API) is less than twice heartbeat_ms = 501",
                  "5 times as long is usual"}},
        BadInput{"rank_beyond_world",
                 {.environment = {{"GRADWIRE_RANK", "4"}, {"GRADWIRE_WORLD_SIZE", "4"}}},
                 {"rank = 4 (from GRADWIRE_RANK)", "world_size = 4 (from GRADWIRE_WORLD_SIZE)"}}),
    [](const auto& info) { return std::string(info.param.what); });

TEST(Settings, TwoHeartbeatsInTheirTimeoutAreEnough) {
  EXPECT_TRUE(
      Settings::Load({.api = {{"heartbeat_ms", "500"}, {"heartbeat_timeout_ms", "1000"}}}).ok());
}

TEST(Settings, UnknownVariablesWarnAndOthersDoNot) {
  SettingsInput in;
  in.environment = {{"GRADWIRE_WINDWO", "secret text"}, {"NCCL_DEBUG", "INFO"}, {"PATH", "/bin"}};
  for (const OtherVariable& other : kOtherVariables) in.environment[std::string(other.name)] = "0";
  const auto settings = Settings::Load(in);
  ASSERT_TRUE(settings.ok());
  ASSERT_EQ(settings->warnings().size(), 1u);
  EXPECT_TRUE(Has(settings->warnings()[0], "GRADWIRE_WINDWO"));
  EXPECT_TRUE(Has(settings->warnings()[0], "Did you mean 'GRADWIRE_WINDOW'?"));
  EXPECT_FALSE(Has(settings->warnings()[0], "secret text"));
}

TEST(Settings, VariablesLikeNoOtherGetNoOther) {
  const auto settings = Settings::Load({.environment = {{"GRADWIRE_QUUX", "1"}}});
  ASSERT_TRUE(settings.ok());
  ASSERT_EQ(settings->warnings().size(), 1u);
  EXPECT_EQ(settings->warnings()[0],
            "environment variable GRADWIRE_QUUX is no setting of gradwire and has no effect. "
            "gradwire info -c lists the settings");
}

TEST(Settings, ExplainsRefusalsOfOthersByWhereTheValueIsFrom) {
  SettingsInput in;
  in.toml_text = "\ninterface = \"eth9\"\n";
  in.environment = {{"GRADWIRE_TRANSPORT", "tcpp"}, {"GRADWIRE_SECRET", "hunter2"}};
  in.api = {{"compress", "qsdg"}};
  in.api_origin = "the command line";
  const Settings settings = *Settings::Load(in);
  const auto explained = [&](const char* name) {
    return settings.Explain(Status(gwTransportUnavailable, "no", "Do").WithSetting(name));
  };
  EXPECT_EQ(explained("interface").detail().message,
            "setting 'interface' = 'eth9' (from gradwire.toml:2): no");
  EXPECT_EQ(explained("transport").detail().message,
            "setting 'transport' = 'tcpp' (from GRADWIRE_TRANSPORT): no");
  EXPECT_EQ(explained("compress").detail().message,
            "setting 'compress' = 'qsdg' (from the command line): no");
  EXPECT_EQ(explained("secret").detail().message,
            "setting 'secret' = '(set)' (from GRADWIRE_SECRET): no");
  // Once, and with all else as it was.
  const Status again = settings.Explain(explained("interface"));
  EXPECT_EQ(again.detail().message, explained("interface").detail().message);
  EXPECT_EQ(again.code(), gwTransportUnavailable);
  EXPECT_EQ(again.detail().hint, "Do");
  // Nobody gave them.
  for (const char* name : {"algorithm", "nothing", ""}) {
    EXPECT_EQ(explained(name).detail().message, "no") << name;
  }
  EXPECT_TRUE(settings.Explain(Status()).ok());
}

TEST(Settings, SecretIsNeverShown) {
  SettingsInput in;
  in.environment = {{"GRADWIRE_SECRET", "hunter2"}};
  const auto settings = Settings::Load(in);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->Text("secret"), "hunter2");
  EXPECT_FALSE(Has(settings->ToTable(), "hunter2"));
  EXPECT_TRUE(Has(settings->ToTable(), "(set)"));
  EXPECT_FALSE(Has(Settings().ToTable(), "(set)"));
}

TEST(Settings, ConfigPathComesFromApiThenEnvironment) {
  SettingsInput in;
  EXPECT_EQ(ConfigPath(in), "");
  in.environment = {{"GRADWIRE_CONFIG", "/etc/a.toml"}};
  EXPECT_EQ(ConfigPath(in), "/etc/a.toml");
  in.api = {{"config", "/etc/b.toml"}};
  EXPECT_EQ(ConfigPath(in), "/etc/b.toml");
}

TEST(SettingsText, TableAndPageHaveEveryRow) {
  const std::string table = Settings().ToTable();
  const std::string page = SettingsMarkdown();
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), static_cast<int>(kSettings.size()) + 1);
  for (const SettingRow& row : kSettings) {
    EXPECT_TRUE(Has(table, "\n" + std::string(row.name) + " ")) << row.name;
    EXPECT_TRUE(Has(page, "| `" + std::string(row.name) + "` |")) << row.name;
    EXPECT_TRUE(Has(page, row.doc)) << row.name;
  }
  for (const OtherVariable& other : kOtherVariables) {
    EXPECT_TRUE(Has(page, "| `" + std::string(other.name) + "` |")) << other.name;
  }
}

}  // namespace
}  // namespace gradwire
