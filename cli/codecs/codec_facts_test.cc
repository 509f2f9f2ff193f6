#include "cli/codecs/codec_facts.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gradwire {
namespace {

CodecFacts FactsOf(const std::string& spec, int ranks) {
  const std::vector<CodecFacts> all = ListCodecFacts(ranks);
  const auto it = std::find_if(all.begin(), all.end(),
                               [&](const CodecFacts& facts) { return facts.spec == spec; });
  EXPECT_NE(it, all.end()) << spec;
  return it == all.end() ? CodecFacts() : *it;
}

TEST(ListCodecFacts, EveryCodecIsThereWithASaneSize) {
  const std::vector<CodecFacts> all = ListCodecFacts(4);
  for (const CodecRow& row : Codecs()) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const CodecFacts& facts) {
      return facts.spec.starts_with(row.name);
    })) << row.name;
  }
  for (const CodecFacts& facts : all) {
    EXPECT_GT(facts.bits_per_elem, 0) << facts.spec;
    EXPECT_LE(facts.bits_per_elem, 32 + 1e-4) << facts.spec;  // and a flag
  }
}

TEST(ListCodecFacts, TellsHowEachIsSummed) {
  EXPECT_EQ(FactsOf("none", 4).reduces_as, "sum");
  EXPECT_EQ(FactsOf("none", 4).bits_per_elem, 32);
  EXPECT_EQ(FactsOf("qsgd(bits=4)", 4).reduces_as, "payload");
  EXPECT_EQ(FactsOf("signsgd", 4).reduces_as, "sum of integers");
  for (const char* spec : {"topk(density=0.1)", "randk(density=0.1)", "powersgd", "acp"})
    EXPECT_EQ(FactsOf(spec, 4).reduces_as, "sum where agreed");
  EXPECT_EQ(FactsOf("topk(density=0.1,agreement=owners)", 4).scheme, "two_shot");
  EXPECT_TRUE(FactsOf("efsign", 4).feedback);
}

// Lanes must hold the counts of all ranks.
TEST(ListCodecFacts, IntegerCarriersGrowWithTheRanks) {
  EXPECT_LT(FactsOf("signsgd", 2).bits_per_elem, FactsOf("signsgd", 256).bits_per_elem);
  EXPECT_EQ(FactsOf("efsign", 2).bits_per_elem, FactsOf("efsign", 256).bits_per_elem);
}

}  // namespace
}  // namespace gradwire
