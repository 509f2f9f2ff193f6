#include "compress/short_spec.h"

#include <gtest/gtest.h>

#include "compress/registry.h"

namespace gradwire {
namespace {

std::string Short(const char* spec) { return ShortSpec(MakeCodec(spec)->spec); }

TEST(ShortSpec, LeavesDefaultsOut) {
  EXPECT_EQ(Short("none"), "none");
  EXPECT_EQ(Short("bf16"), "bf16");
  EXPECT_EQ(Short("bf16(feedback=on)"), "bf16(feedback=on)");
  EXPECT_EQ(Short("qsgd"), "qsgd(bits=8)") << "the strength stays";
  EXPECT_EQ(Short("qsgd(bits=4,feedback=on)"), "qsgd(bits=4,feedback=on)");
  EXPECT_EQ(Short("qsgd(bits=6,block=512)"), "qsgd(bits=6,block=512)");
  EXPECT_EQ(Short("topk(0.01)"), "topk(density=0.01)");
  EXPECT_EQ(Short("qsgd(bits=8,exclude=\"*.bias,*norm*\")"),
            "qsgd(bits=8,exclude=\"*.bias,*norm*\")");
}

TEST(ShortSpec, MakesTheSameCodec) {
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      const std::string canonical = MakeCodec(spec)->spec;
      const StatusOr<Codec> made = MakeCodec(ShortSpec(canonical));
      ASSERT_TRUE(made.ok()) << spec;
      EXPECT_EQ(made->spec, canonical);
      EXPECT_LE(ShortSpec(canonical).size(), canonical.size());
    }
  }
}

TEST(ShortSpec, LeavesOtherTextAlone) {
  for (const char* text : {"", "nonsense(", "nothing(a=1)"}) EXPECT_EQ(ShortSpec(text), text);
}

}  // namespace
}  // namespace gradwire
