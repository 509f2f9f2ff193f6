#include "runtime/spec/auto_spec.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace gradwire {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> LadderOf(std::string_view spec) {
  std::vector<std::string> specs;
  const StatusOr<AutoSpec> made = MakeAutoSpec(spec);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  for (const Rung& rung : made.ok() ? made->ladder : std::vector<Rung>()) {
    specs.push_back(rung.codec.spec.substr(0, rung.codec.spec.find(',')));
  }
  return specs;
}

TEST(AutoSpec, IsToldByItsName) {
  EXPECT_TRUE(IsAutoSpec("auto"));
  EXPECT_TRUE(IsAutoSpec(" auto ( error = 0.1 ) "));
  EXPECT_FALSE(IsAutoSpec("bf16"));
  EXPECT_FALSE(IsAutoSpec("auto("));
}

TEST(AutoSpec, TheLadderBeginsWithNoneAndBf16) {
  EXPECT_THAT(LadderOf("auto"), ::testing::ElementsAre("none", "bf16(feedback=off)", "qsgd(bits=8",
                                                       "qsgd(bits=6", "qsgd(bits=4"));
}

TEST(AutoSpec, AllowAddsCodecsInTheirOrderAndNoneTwice) {
  EXPECT_THAT(LadderOf("auto(allow=\"topk(density=0.01,min_numel=2048),bf16,powersgd(rank=2)\")"),
              ::testing::ElementsAre("none", "bf16(feedback=off)", "qsgd(bits=8", "qsgd(bits=6",
                                     "qsgd(bits=4", "topk(density=0.01", "powersgd(rank=2)"));
}

TEST(AutoSpec, ACodecWithoutItsStrengthIsALadderOfItsOwn) {
  EXPECT_THAT(LadderOf("auto(allow=\"topk(0.02), powersgd , bf16\")"),
              ::testing::ElementsAre("none", "bf16(feedback=off)", "qsgd(bits=8", "qsgd(bits=6",
                                     "qsgd(bits=4", "topk(density=0.02", "powersgd(rank=8)",
                                     "powersgd(rank=4)", "powersgd(rank=2)", "powersgd(rank=1)"));
  for (const std::string name : {"topk", "randk", "powersgd", "acp"}) {
    const std::vector<std::string> ladder = LadderOf("auto(allow=\"" + name + "\")");
    EXPECT_EQ(ladder.size(), LadderOf("auto").size() + 4) << name;
    EXPECT_EQ(std::set<std::string>(ladder.begin(), ladder.end()).size(), ladder.size()) << name;
  }
}

TEST(AutoSpec, BoundsGoWithFeedback) {
  const AutoSpec made = *MakeAutoSpec("auto(error=0.02,lag=3)");
  for (const Rung& rung : made.ladder) {
    EXPECT_EQ(rung.bound, rung.codec.feedback == Feedback::kOn ? 3 : 0.02) << rung.codec.spec;
  }
  EXPECT_EQ(made.ladder.back().bound, 3);
  EXPECT_EQ(made.ladder.front().bound, 0.02);
}

TEST(AutoSpec, SmallAndExcludedTensorsAreLeftAloneOnEveryRung) {
  const AutoSpec made = *MakeAutoSpec("auto(min_numel=100,exclude=\"*.bias\")");
  for (const Rung& rung : made.ladder) {
    EXPECT_EQ(rung.codec.min_numel, 100);
    EXPECT_EQ(rung.codec.exclude, "*.bias");
  }
  EXPECT_GT(MakeAutoSpec("auto")->ladder[0].codec.min_numel, 0);
}

TEST(AutoSpec, CanonicalTextMakesTheSame) {
  const AutoSpec made = *MakeAutoSpec("auto( lag=2, allow=\"topk(0.05)\" )");
  const AutoSpec again = *MakeAutoSpec(made.spec);
  EXPECT_EQ(again.spec, made.spec);
  EXPECT_EQ(again.ladder.size(), made.ladder.size());
}

// A plan would take the rung behind the last for the first.
TEST(AutoSpec, ALadderHasNoMoreRungsThanAPlanCanName) {
  const auto with_codecs = [](int count) {
    std::string spec = "auto(allow=\"";
    for (int i = 1; i <= count; ++i)
      spec += fmt::format("{}topk({:.3f})", i > 1 ? "," : "", 1e-3 * i);
    return spec + "\")";
  };
  EXPECT_EQ(LadderOf(with_codecs(251)).size(), 256u);
  const StatusOr<AutoSpec> more = MakeAutoSpec(with_codecs(252));
  EXPECT_EQ(more.status().code(), gwInvalidArgument);
  EXPECT_THAT(more.status().ToString(), HasSubstr("allow= names 252 codecs"));
  EXPECT_THAT(more.status().ToString(), HasSubstr("Name up to 251"));
}

TEST(AutoSpec, WhatIsWrongIsNamed) {
  const struct {
    const char* spec;
    const char* told;
  } cases[] = {{"auto(error=0)", "1e-06 to 1"},
               {"auto(error=2)", "1e-06 to 1"},
               {"auto(lag=-1)", "1e-06 to"},
               {"auto(eror=0.1)", "Did you mean 'error'?"},
               {"auto(0.1)", "Known: error, lag"},
               {"auto(allow=\"topq(0.1)\")", "topk"},
               {"auto(allow=\"auto\")", "unknown"},
               {"auto(allow=\"qsgd(bits=99)\")", "bits"},
               {"auto(allow=\"signsgd\")", "estimate"},
               {"auto(allow=\"intsgd\")", "earlier sums"},
               {"auto(allow=\"intsgd(bits=32)\")", "earlier sums"},
               {"auto(exclude=\"*\")", "every tensor"},
               {"auto(exclude=\"*.bias,*\")", "every tensor"},
               {"auto(exclude=\"**,w\")", "every tensor"},
               {"auto(exclude=\"?*\")", "every tensor"},
               {"auto(allow=\"powersgd(rank=2,start_step=9)\")", "start_step"},
               {"auto(allow=\"topk(0.01,agreement=gather,warmup=100)\")", "warmup"}};
  for (const auto& c : cases) {
    const StatusOr<AutoSpec> made = MakeAutoSpec(c.spec);
    ASSERT_FALSE(made.ok()) << c.spec;
    EXPECT_EQ(made.status().code(), gwInvalidArgument) << c.spec;
    EXPECT_THAT(made.status().ToString(), HasSubstr(c.told)) << c.spec;
    EXPECT_FALSE(CheckSpec(c.spec).ok());
  }
  EXPECT_TRUE(CheckSpec("auto").ok());
  EXPECT_TRUE(CheckSpec("auto(allow=\"topk(0.01,agreement=gather)\")").ok());
  EXPECT_TRUE(CheckSpec("topk(0.1)").ok());
}

}  // namespace
}  // namespace gradwire
