#include "cli/codecs/codec_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace gradwire {
namespace {

using testing::HasSubstr;

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
  for (const char* spec : {"topk(0.01)", "randk(0.01)", "powersgd(rank=4)", "acp(rank=4)"})
    EXPECT_EQ(FactsOf(spec, 4).reduces_as, "sum where agreed");
  EXPECT_EQ(FactsOf("topk(0.01,agreement=owners)", 4).scheme, "two_shot");
  EXPECT_TRUE(FactsOf("efsign", 4).feedback);
}

TEST(ListCodecFacts, TheReduceClassGoesWithTheScheme) {
  const auto class_of = [](const char* spec) { return FactsOf(spec, 4).reduce_class; };
  for (const char* spec : {"none", "randk(0.01)"}) EXPECT_EQ(class_of(spec), "R0") << spec;
  for (const char* spec : {"topk(0.01)", "powersgd(rank=4)", "acp(rank=4)"})
    EXPECT_EQ(class_of(spec), "R1") << spec;
  for (const char* spec : {"qsgd(bits=4,sum=carrier)", "terngrad", "signsgd", "intsgd"})
    EXPECT_EQ(class_of(spec), "R2") << spec;
  for (const char* spec : {"bf16", "qsgd(bits=4)", "efsign", "topk(0.01,agreement=owners)"})
    EXPECT_EQ(class_of(spec), "R4") << spec;
  EXPECT_EQ(class_of("topk(0.01,agreement=gather)"), "R5");
}

TEST(ListCodecFacts, TellsWhatItIsSafeWith) {
  const auto advice_of = [](const char* spec) { return FactsOf(spec, 4).advice; };
  // "does not converge at all with a momentum of 0.9", as the README has it.
  EXPECT_FALSE(advice_of("efsign").momentum);
  EXPECT_THAT(advice_of("efsign").note, HasSubstr("diverges at 0.9"));
  EXPECT_FALSE(advice_of("topk(0.01)").momentum);
  EXPECT_THAT(advice_of("topk(0.01)").note, HasSubstr("momentum up to about 0.5"));
  EXPECT_FALSE(advice_of("acp(rank=4)").momentum);
  EXPECT_THAT(advice_of("acp(rank=4)").note, HasSubstr("diverges with the rate of none"));
  EXPECT_TRUE(advice_of("powersgd(rank=4)").momentum);
  // One note for all densities.
  EXPECT_FALSE(advice_of("randk(0.01)").momentum);
  EXPECT_THAT(advice_of("randk(0.1)").note, HasSubstr("no momentum: 0.01 diverges"));
  EXPECT_FALSE(advice_of("signsgd").momentum);
  EXPECT_THAT(advice_of("signsgd").note, HasSubstr("learning rate of its own"));
  EXPECT_FALSE(advice_of("fp16").amp);
  for (const char* spec : {"none", "bf16", "qsgd(bits=8)"}) {
    EXPECT_TRUE(advice_of(spec).momentum && advice_of(spec).adam && advice_of(spec).amp) << spec;
  }
}

// docs/algorithms.md, "With Adam": alike for all that keep much back, and so is the advice.
TEST(ListCodecFacts, WhatAdamWasMeasuredToLoseIsSaidAlikeOfAll) {
  const std::pair<const char*, const char*> cases[] = {{"efsign", "0.06 nats"},
                                                       {"powersgd(rank=4)", "0.06 nats"},
                                                       {"acp(rank=4)", "0.07 nats"},
                                                       {"topk(0.01)", "0.08 nats"}};
  for (const auto& [spec, lost] : cases) {
    EXPECT_FALSE(FactsOf(spec, 4).advice.adam) << spec;
    EXPECT_THAT(FactsOf(spec, 4).advice.note, HasSubstr(lost)) << spec;
  }
  for (const char* spec : {"terngrad", "qsgd(bits=8)", "qsgd(bits=4,feedback=on)"})
    EXPECT_TRUE(FactsOf(spec, 4).advice.adam) << spec;
}

// The same codec with more bits was measured.
TEST(ListCodecFacts, WhatWasInNoTrainingIsNotCalledSafe) {
  const OptimizerAdvice advice = FactsOf("qsgd(bits=2,feedback=on)", 4).advice;
  EXPECT_FALSE(advice.momentum || advice.adam);
  EXPECT_THAT(advice.note, HasSubstr("not measured"));
  for (const char* spec : {"qsgd(bits=4,feedback=on)", "qsgd(bits=4,sum=carrier,feedback=on)"}) {
    EXPECT_TRUE(FactsOf(spec, 4).advice.momentum) << spec;
    EXPECT_EQ(FactsOf(spec, 4).advice.note, "") << spec;
  }
}

TEST(ListCodecFacts, WhatIsNotSafeSaysWhy) {
  for (const CodecFacts& facts : ListCodecFacts(4)) {
    const OptimizerAdvice& advice = facts.advice;
    if (!advice.momentum || !advice.adam || !advice.amp) {
      EXPECT_FALSE(advice.note.empty()) << facts.spec;
    }
  }
}

TEST(ListCodecFacts, TellsWhereThereAreTooManyRanks) {
  EXPECT_EQ(FactsOf("intsgd", 127).refused, "");
  EXPECT_THAT(FactsOf("intsgd", 128).refused, HasSubstr("127"));
  EXPECT_EQ(FactsOf("topk(0.01,agreement=gather)", 4).refused, "");
  EXPECT_NE(FactsOf("topk(0.01,agreement=gather)", 256).refused, "");
}

// Lanes must hold the counts of all ranks.
TEST(ListCodecFacts, IntegerCarriersGrowWithTheRanks) {
  EXPECT_LT(FactsOf("signsgd", 2).bits_per_elem, FactsOf("signsgd", 256).bits_per_elem);
  EXPECT_EQ(FactsOf("efsign", 2).bits_per_elem, FactsOf("efsign", 256).bits_per_elem);
}

}  // namespace
}  // namespace gradwire
