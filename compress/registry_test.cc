#include "compress/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace gradwire {
namespace {

using testing::HasSubstr;

std::string SpecOf(std::string_view text) {
  const StatusOr<Codec> codec = MakeCodec(text);
  return codec.ok() ? codec->spec : codec.status().ToString();
}

TEST(RegistryTest, NamesAreUniqueAndRowsComplete) {
  std::set<std::string> names;
  for (const CodecRow& row : Codecs()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.doc.empty()) << row.name;
    EXPECT_FALSE(row.conformance_specs.empty()) << row.name;
    ASSERT_NE(row.make, nullptr);
  }
}

TEST(RegistryTest, CanonicalTextMakesTheSameCodec) {
  for (const CodecRow& row : Codecs()) {
    std::vector<std::string> texts = row.conformance_specs;
    texts.insert(texts.end(), row.shown_specs.begin(), row.shown_specs.end());
    for (const std::string& text : texts) {
      const StatusOr<Codec> codec = MakeCodec(text);
      ASSERT_TRUE(codec.ok()) << codec.status().ToString();
      EXPECT_EQ(SpecOf(codec->spec), codec->spec);
      EXPECT_TRUE(codec->payload != nullptr || codec->carrier != nullptr) << text;
    }
  }
}

TEST(RegistryTest, FillsInDefaults) {
  EXPECT_EQ(SpecOf("none"), "none");
  EXPECT_EQ(SpecOf("none(feedback=off)"), "none");
  EXPECT_EQ(SpecOf("bf16"), "bf16(feedback=off)");
  EXPECT_EQ(SpecOf("fp16()"), "fp16");
  EXPECT_EQ(SpecOf("efsign(feedback=on)"), "efsign");
  EXPECT_EQ(SpecOf("signsgd(feedback=off)"), "signsgd");
  EXPECT_EQ(SpecOf("signsgd(momentum=0)"), "signsgd");
  EXPECT_EQ(SpecOf("intsgd"), "intsgd(bits=8)");
  EXPECT_EQ(SpecOf("terngrad"), "terngrad(clip=2.5,feedback=off)");
  EXPECT_EQ(SpecOf("terngrad(-0)"), "terngrad(clip=0,feedback=off)");
  EXPECT_EQ(SpecOf("terngrad(1)"), "terngrad(clip=1,feedback=off)");
  EXPECT_EQ(SpecOf("qsgd"), "qsgd(bits=8,norm=max,sum=owner,block=256,feedback=off)");
  EXPECT_EQ(SpecOf("qsgd(4)"), SpecOf("qsgd( bits = 4 )"));
  EXPECT_EQ(SpecOf("qsgd(4,512,feedback=on)"),
            "qsgd(bits=4,norm=max,sum=owner,block=512,feedback=on)");
}

TEST(RegistryTest, ReadsCommonOptions) {
  const StatusOr<Codec> codec = MakeCodec("qsgd(4,exclude=\"*.bias,*norm*\",min_numel=1024)");
  ASSERT_TRUE(codec.ok()) << codec.status().ToString();
  EXPECT_EQ(codec->min_numel, 1024);
  EXPECT_EQ(codec->exclude, "*.bias,*norm*");
  EXPECT_EQ(codec->spec,
            "qsgd(bits=4,norm=max,sum=owner,block=256,feedback=off,min_numel=1024,exclude=\"*.bias,"
            "*norm*\")");
  EXPECT_EQ(SpecOf(codec->spec), codec->spec);
}

// Of one codec too, by how it travels; what is usual is not written.
TEST(RegistryTest, WhatIsTooSmallDependsOnHowItTravels) {
  EXPECT_EQ(MakeCodec("qsgd(sum=owner)")->min_numel, 0);
  EXPECT_EQ(MakeCodec("qsgd(sum=carrier)")->min_numel, kMinNumelOfTensors);
  EXPECT_EQ(SpecOf("qsgd(sum=carrier,min_numel=1024)"), SpecOf("qsgd(sum=carrier)"));
  EXPECT_EQ(SpecOf("qsgd(sum=carrier,min_numel=0)"),
            "qsgd(bits=8,norm=max,sum=carrier,feedback=off,min_numel=0)");
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      const Codec codec = *MakeCodec(spec);
      if (row.name == "none" || codec.carrier == nullptr) continue;
      EXPECT_EQ(codec.min_numel, kMinNumelOfTensors) << spec;
    }
  }
}

TEST(RegistryTest, FeedbackIsForContractiveCodecs) {
  EXPECT_EQ(MakeCodec("qsgd(feedback=on)")->feedback, Feedback::kOn);
  EXPECT_TRUE(MakeCodec("qsgd(feedback=on)")->payload->traits().contractive);
  EXPECT_TRUE(MakeCodec("qsgd")->payload->traits().unbiased);
  EXPECT_EQ(MakeCodec("bf16(feedback=on)")->feedback, Feedback::kOn);
  EXPECT_EQ(MakeCodec("efsign")->feedback, Feedback::kOn);
  EXPECT_THAT(SpecOf("fp16(feedback=on)"), HasSubstr("bf16(feedback=on)"));
  EXPECT_THAT(SpecOf("efsign(feedback=off)"), HasSubstr("feedback=off"));
  EXPECT_THAT(SpecOf("none(feedback=on)"), HasSubstr("no error to feed back"));
  EXPECT_THAT(SpecOf("signsgd(feedback=on)"), HasSubstr("efsign is the sign with feedback"));
  EXPECT_THAT(SpecOf("intsgd(feedback=on)"), HasSubstr("the scale of its own step"));
  EXPECT_THAT(SpecOf("terngrad(feedback=on)"), HasSubstr("needs a contractive codec"));
}

TEST(RegistryTest, ErrorsNameTheNearestSpelling) {
  EXPECT_THAT(SpecOf("qsdg(4)"), HasSubstr("Did you mean 'qsgd'?"));
  EXPECT_THAT(SpecOf("qsdg(4)"), HasSubstr("none, bf16, fp16, qsgd, efsign"));
  EXPECT_THAT(SpecOf("qsgd(bit=4)"), HasSubstr("Did you mean 'bits'?"));
  EXPECT_THAT(SpecOf("qsgd(feedback=onn)"), HasSubstr("Did you mean 'on'?"));
  EXPECT_THAT(SpecOf("bf16(min_numle=3)"), HasSubstr("Did you mean 'min_numel'?"));
  EXPECT_THAT(SpecOf("4bit"), HasSubstr("unknown codec \"4bit\". Known: none, bf16"));
  EXPECT_THAT(SpecOf("qsgd(feedback=no)"), HasSubstr("feedback=no. Accepted: "));
}

TEST(RegistryTest, ErrorsTellWhatIsAlmostRight) {
  EXPECT_THAT(SpecOf("qsgd(bits=4,feedback)"), HasSubstr("\"feedback\" has no value"));
  EXPECT_THAT(SpecOf("qsgd(bits=4,feedback)"), HasSubstr(". Write feedback=on"));
  EXPECT_THAT(SpecOf("qsgd(feedback)"), HasSubstr(". Write feedback=on"));
  EXPECT_THAT(SpecOf("qsgd(bits)"), HasSubstr(". Write bits=VALUE"));
  EXPECT_THAT(SpecOf("topk(5)"), HasSubstr(". Did you mean 0.05, which is 5 %? Accepted: "));
  EXPECT_THAT(SpecOf("topk(1%)"), HasSubstr(". Did you mean 0.01, which is 1 %? Accepted: "));
  EXPECT_THAT(SpecOf("randk(0.5%)"), HasSubstr(". Did you mean 0.005, which is 0.5 %? "));
  EXPECT_THAT(SpecOf("signsgd(momentum=90)"), HasSubstr("Did you mean 0.9, which is 90 %?"));
  // These are no percentages.
  for (const char* spec : {"topk(0)", "topk(-5)", "topk(101)", "topk(5x)", "topk(%)", "topk(x%)",
                           "topk(nan%)", "terngrad(clip=50)"}) {
    EXPECT_THAT(SpecOf(spec), testing::Not(HasSubstr("Did you mean"))) << spec;
  }
}

TEST(RegistryTest, ErrorsNameWhatIsAccepted) {
  EXPECT_THAT(SpecOf("qsgd(9)"), HasSubstr("2..8"));
  EXPECT_THAT(SpecOf("qsgd(1)"), HasSubstr("2..8"));
  EXPECT_THAT(SpecOf("qsgd(4.5)"), HasSubstr("bits=4.5"));
  EXPECT_THAT(SpecOf("qsgd(block=300)"), HasSubstr("multiples of 256"));
  EXPECT_THAT(SpecOf("qsgd(block=99999999999999999999)"), HasSubstr("256..4096"));
  EXPECT_THAT(SpecOf("intsgd(bits=16)"), HasSubstr("bits=16"));
  EXPECT_THAT(SpecOf("signsgd(momentum=1)"), HasSubstr("0.9999"));
  for (const char* clip : {"0.999", "1e-300", "-1", "18.1", "nan", "1x"}) {
    EXPECT_THAT(SpecOf("terngrad(clip=" + std::string(clip) + ")"),
                HasSubstr("Accepted: 0, or 1 to 18"))
        << clip;
  }
  EXPECT_THAT(SpecOf("qsgd(norm=l2)"), HasSubstr("Accepted: max"));
  EXPECT_THAT(SpecOf("qsgd(bits=4,bits=4)"), HasSubstr("given twice"));
  EXPECT_THAT(SpecOf("qsgd(4,bits=4)"), HasSubstr("given twice"));
  EXPECT_THAT(SpecOf("qsgd(bits=4,256)"), HasSubstr("has no name"));
  EXPECT_THAT(SpecOf("bf16(4)"), HasSubstr("has no name"));
  EXPECT_THAT(SpecOf("bf16(min_numel=-1)"), HasSubstr("min_numel=-1"));
  EXPECT_EQ(MakeCodec("bf16(min_numel=-1)").status().code(), gwInvalidArgument);
}

}  // namespace
}  // namespace gradwire
