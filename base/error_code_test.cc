#include "base/error_code.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace gradwire {
namespace {

TEST(IsErrorCode, TakesThoseThatHaveAText) {
  const std::set<int32_t> codes = {gwUnhandledCudaError, gwSystemError,  gwInternalError,
                                   gwInvalidArgument,    gwInvalidUsage, gwRemoteError,
                                   gwInProgress,         gwTimeout,      gwAborted,
                                   gwMismatch,           gwDataCorrupt,  gwNonFinite,
                                   gwPeerLost,           gwRevoked,      gwTransportUnavailable,
                                   gwUnauthenticated};
  ASSERT_EQ(codes.size(), 16u);
  for (int32_t code = -300; code <= 300; ++code)
    EXPECT_EQ(IsErrorCode(code), codes.contains(code)) << code;
  for (const int32_t code : {INT32_MAX, INT32_MIN}) EXPECT_FALSE(IsErrorCode(code)) << code;
}

}  // namespace
}  // namespace gradwire
