#include "runtime/spec/spec_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compress/registry.h"

namespace gradwire {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

Status ErrorOf(const std::string& spec) {
  return WithAutoAmongCodecs(MakeCodec(spec).status(), spec);
}

TEST(WithAutoAmongCodecs, SuggestsAndListsIt) {
  for (const char* spec : {"atuo", "aut", "Auto", "atuo(error=0.2)"}) {
    const ErrorDetail d = ErrorOf(spec).detail();
    EXPECT_THAT(d.message, HasSubstr("unknown codec")) << spec;
    EXPECT_THAT(d.hint, HasSubstr("Did you mean 'auto'?")) << spec;
    EXPECT_THAT(d.hint, EndsWith(", auto")) << spec;
  }
  const ErrorDetail codec = ErrorOf("tpok").detail();
  EXPECT_THAT(codec.hint, HasSubstr("Did you mean 'topk'?"));
  EXPECT_THAT(codec.hint, EndsWith(", auto"));
}

TEST(WithAutoAmongCodecs, LeavesOtherErrorsAlone) {
  EXPECT_TRUE(ErrorOf("bf16").ok());
  for (const char* spec : {"qsgd(bits=99)", "topk(0.1", "qsgd(bist=4)", ""}) {
    EXPECT_EQ(ErrorOf(spec).ToString(), MakeCodec(spec).status().ToString()) << spec;
  }
}

}  // namespace
}  // namespace gradwire
