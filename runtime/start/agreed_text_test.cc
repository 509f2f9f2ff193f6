#include "runtime/start/agreed_text.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "collectives/schedule.h"

namespace gradwire {
namespace {

OpText Chosen() {
  const StatusOr<Settings> settings = Settings::Load({.api = {{"window", "7"}, {"seed", "9"}}});
  EXPECT_TRUE(settings.ok()) << settings.status().ToString();
  OpText text = AgreedText(*settings);
  text.emplace_back("one_host", "1");
  text.emplace_back("end", "tcp");
  return text;
}

TEST(ParseAgreed, ReadsWhatRankZeroWrote) {
  const StatusOr<AgreedSettings> agreed = ParseAgreed(Chosen());
  ASSERT_TRUE(agreed.ok()) << agreed.status().ToString();
  EXPECT_TRUE(agreed->one_host);
  EXPECT_EQ(agreed->window, 7);
  EXPECT_EQ(agreed->seed, 9u);
  EXPECT_EQ(agreed->spec, "none");
  EXPECT_EQ(agreed->transport, "tcp");
  EXPECT_TRUE(agreed->transaction);
  EXPECT_GT(agreed->slice.elems, 0);
}

OpText ChosenWith(std::string_view field, std::string_view value) {
  OpText text = Chosen();
  for (auto& line : text) {
    if (line.first == field) line.second = value;
  }
  return text;
}

TEST(ParseAgreed, TheWindowAdaptsBetweenHostsOnly) {
  OpText text = ChosenWith("window", "0");
  EXPECT_EQ(ParseAgreed(text)->window, 4);
  for (auto& [field, value] : text) {
    if (field == "one_host") value = "0";
  }
  EXPECT_EQ(ParseAgreed(text)->window, 0);
}

TEST(ParseAgreed, NamesTheNumberThatIsMissingOrNone) {
  for (const char* field : {"slice_elems", "window", "seed"}) {
    OpText without = Chosen();
    std::erase_if(without, [&](const auto& line) { return line.first == field; });
    EXPECT_EQ(ParseAgreed(without).status().code(), gwMismatch) << field;
    EXPECT_EQ(ParseAgreed(without).status().detail().field, field);
    for (const char* text : {"", "x", "-1", "+1", " 1", "4x", "99999999999999999999"}) {
      const Status status = ParseAgreed(ChosenWith(field, text)).status();
      EXPECT_EQ(status.code(), gwMismatch) << field << " " << text;
      EXPECT_EQ(status.detail().field, field);
      EXPECT_NE(status.ToString().find(field), std::string::npos) << status.ToString();
    }
  }
}

TEST(ParseAgreed, KnowsTheAlgorithmOrSaysSo) {
  EXPECT_EQ(ParseAgreed(Chosen())->all_reduce, nullptr) << "by size";
  const StatusOr<AgreedSettings> ring = ParseAgreed(ChosenWith("algorithm", "ring"));
  ASSERT_TRUE(ring.ok()) << ring.status().ToString();
  EXPECT_EQ(ring->all_reduce->name, "ring");
  EXPECT_EQ(ring->all_reduce->collective, Collective::kAllReduce);
  for (const char* name : {"", "rnig", "two_shot"}) {
    const Status status = ParseAgreed(ChosenWith("algorithm", name)).status();
    EXPECT_EQ(status.code(), gwMismatch) << name;
    EXPECT_EQ(status.detail().field, "algorithm");
  }
}

// Sizes of memory follow from them, and overflow beyond.
TEST(ParseAgreed, RefusesWhatNoSettingAllows) {
  const std::pair<const char*, int64_t> most[] = {
      {"slice_elems", int64_t{1} << 28}, {"window", 64}, {"seed", 0xFFFFFFFF}};
  for (const auto& [field, number] : most) {
    EXPECT_TRUE(ParseAgreed(ChosenWith(field, std::to_string(number))).ok()) << field;
    const Status status = ParseAgreed(ChosenWith(field, std::to_string(number + 1))).status();
    EXPECT_EQ(status.code(), gwMismatch) << field;
    EXPECT_EQ(status.detail().field, field);
  }
}

TEST(NumberIn, TakesWhatIsInItsRange) {
  const OpText text = {{"job", "18446744073709551615"}, {"window", "64"}};
  EXPECT_EQ(*NumberIn(text, "job", 0, UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(*NumberIn(text, "window", 1, 64), 64u);
  EXPECT_EQ(NumberIn(text, "window", 1, 63).status().detail().field, "window");
  EXPECT_EQ(NumberIn(text, "window", 65, 99).status().code(), gwMismatch);
}

}  // namespace
}  // namespace gradwire
