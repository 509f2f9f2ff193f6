#include "base/error_code.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace gradwire {
namespace {

TEST(IsErrorCode, TakesThoseThatHaveAText) {
  for (const gwResult_t code : {gwSystemError, gwInvalidArgument, gwTimeout, gwDataCorrupt})
    EXPECT_TRUE(IsErrorCode(code)) << ResultText(code);
  for (const int32_t code : {int32_t{gwSuccess}, -1, 126, 127, 128, INT32_MAX, INT32_MIN})
    EXPECT_FALSE(IsErrorCode(code)) << code;
}

}  // namespace
}  // namespace gradwire
