// What the start refuses before it talks to anybody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "transports/bootstrap/address.h"
#include "transports/bootstrap/bootstrap.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

TEST(BootstrapOptions, RefusesImpossibleOptions) {
  EXPECT_EQ(Bootstrap({.rank = 2, .world_size = 2}).status().code(), gwInvalidArgument);
  EXPECT_EQ(Bootstrap({.rank = -1, .world_size = 2}).status().code(), gwInvalidArgument);
  EXPECT_EQ(Bootstrap({.rank = 0, .world_size = 0}).status().code(), gwInvalidArgument);
  EXPECT_EQ(
      Bootstrap({.world_size = 1, .blob = std::string(kMaxBlobBytes + 1, 'x')}).status().code(),
      gwInvalidArgument);
}

TEST(BootstrapOptions, NoSecretIsForLoopbackOnly) {
  for (const int rank : {0, 1}) {
    const StatusOr<BootstrapResult> result =
        Bootstrap({.rank = rank, .world_size = 2, .root = {"192.0.2.1", 4000}});
    EXPECT_EQ(result.status().code(), gwInvalidUsage);
    EXPECT_THAT(result.status().ToString(), HasSubstr("GRADWIRE_SECRET"));
    EXPECT_THAT(result.status().ToString(), HasSubstr("GRADWIRE_INSECURE=1"));
  }
}

TEST(BootstrapOptions, ForeignAddressAndTakenPortAreToldAsSuch) {
  const StatusOr<BootstrapResult> foreign =
      Bootstrap({.rank = 0, .world_size = 2, .root = {"203.0.113.7", 4000}, .secret = "s"});
  EXPECT_THAT(foreign.status().ToString(), HasSubstr("is not an address of this host"));
  const UniqueFd holder = std::move(*Listen(*ResolveHost({"127.0.0.1", 0})));
  const int port = BoundAddress(holder.get())->port();
  const StatusOr<BootstrapResult> taken =
      Bootstrap({.rank = 0, .world_size = 2, .root = {"127.0.0.1", port}});
  EXPECT_THAT(taken.status().ToString(), HasSubstr("is taken by another process"));
  const StatusOr<BootstrapResult> any =
      Bootstrap({.rank = 0, .world_size = 2, .root = {"0.0.0.0", 4000}, .secret = "s"});
  EXPECT_THAT(any.status().ToString(), HasSubstr("every interface"));
}

}  // namespace
}  // namespace gradwire
