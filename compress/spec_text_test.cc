#include <gtest/gtest.h>

#include "compress/registry.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

using Args = std::vector<std::pair<std::string, std::string>>;

TEST(SpecTextTest, ParsesNamesAndArguments) {
  EXPECT_EQ(ParseSpecText("none")->name, "none");
  EXPECT_TRUE(ParseSpecText("none()")->args.empty());
  const StatusOr<SpecText> spec = ParseSpecText(" qsgd ( 4 , block = 256,norm=max ) ");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->name, "qsgd");
  EXPECT_EQ(spec->args, (Args{{"", "4"}, {"block", "256"}, {"norm", "max"}}));
}

TEST(SpecTextTest, KeepsWhatIsQuoted) {
  const StatusOr<SpecText> spec = ParseSpecText("bf16(exclude=\"*.bias, norm(1)\",x='a=b')");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->args, (Args{{"exclude", "*.bias, norm(1)"}, {"x", "a=b"}}));
}

TEST(SpecTextTest, RefusesBadSyntax) {
  for (const char* text : {"",
                           "  ",
                           "(",
                           "qsgd(",
                           "qsgd(4",
                           "qsgd(4))",
                           "qsgd)",
                           "qsgd(,)",
                           "qsgd(4,)",
                           "qsgd(bits=)",
                           "qsgd(bits==4)",
                           "qsgd(\"a)",
                           "qsgd(x='a\"b')",
                           "qsgd 4",
                           "qsgd(a=(b))",
                           "q\"sgd",
                           "qsgd(\"a\"b)",
                           "bf16(exclude=\"a\nb\")",
                           "bf16(exclude=\"a\tb\")",
                           "qsgd(4\x01)",
                           "qsgd(\x7f)"}) {
    const StatusOr<SpecText> spec = ParseSpecText(text);
    EXPECT_FALSE(spec.ok()) << text;
    EXPECT_EQ(spec.status().code(), gwInvalidArgument) << text;
    EXPECT_FALSE(spec.status().detail().hint.empty()) << text;
  }
  EXPECT_FALSE(ParseSpecText(std::string(5000, 'a')).ok());
}

// Nothing is missing at its end.
TEST(SpecTextTest, ASpecWithinASpecIsAskedForInQuotes) {
  const Status status = ParseSpecText("auto(allow=topk(0.01))").status();
  EXPECT_NE(status.ToString().find("no quotes"), std::string::npos) << status.ToString();
  EXPECT_NE(status.detail().hint.find("allow=\"topk(0.01)"), std::string::npos);
}

TEST(SpecTextTest, FormatIsTheInverse) {
  for (const char* text :
       {"none", "qsgd(4)", "qsgd(bits=4,block=256)", "bf16(exclude=\"*.bias,a b\")",
        "bf16(exclude=\"it's\")", "bf16(exclude=\"a=b\")", "bf16(exclude=\"\")"}) {
    EXPECT_EQ(FormatSpecText(*ParseSpecText(text)), text);
  }
}

}  // namespace
}  // namespace gradwire
