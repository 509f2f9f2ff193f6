#include "transports/bootstrap/unique_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace gradwire {
namespace {

using testing::HasSubstr;

TEST(UniqueId, CarriesAddressJobAndSecret) {
  const StatusOr<UniqueId> a = CreateUniqueId({.host = "127.0.0.1"});
  const StatusOr<UniqueId> b = CreateUniqueId({.host = "127.0.0.1"});
  ASSERT_TRUE(a.ok() && b.ok()) << a.status().ToString();
  const StatusOr<UniqueIdContents> pa = ParseUniqueId(*a), pb = ParseUniqueId(*b);
  ASSERT_TRUE(pa.ok() && pb.ok());
  EXPECT_EQ(pa->root.host, "127.0.0.1");
  EXPECT_GT(pa->root.port, 0);
  EXPECT_EQ(pa->secret.size(), 32u);
  EXPECT_NE(pa->secret, pb->secret);
  EXPECT_NE(pa->job, pb->job);
  EXPECT_NE(pa->root.port, pb->root.port);
}

TEST(UniqueId, KnowsIPv6) {
  const StatusOr<UniqueId> id = CreateUniqueId({.host = "::1"});
  if (!id.ok()) GTEST_SKIP() << "no IPv6 here: " << id.status().ToString();
  EXPECT_EQ(ParseUniqueId(*id)->root.host, "::1");
}

TEST(UniqueId, ListensTowardTheRootUnlessAnInterfaceIsNamed) {
  const auto host = [](const UniqueIdOptions& options) {
    return ParseUniqueId(*CreateUniqueId(options))->root.host;
  };
  EXPECT_EQ(host({.root = "127.0.0.1:29600"}), "127.0.0.1");
  EXPECT_EQ(host({.interface = "lo", .root = "192.0.2.1:29600"}), "127.0.0.1");
  EXPECT_EQ(CreateUniqueId({.root = "node1"}).status().code(), gwInvalidArgument) << "no port";
}

TEST(UniqueId, ListenerIsClaimedOnce) {
  const StatusOr<UniqueId> id = CreateUniqueId({.host = "127.0.0.1"});
  const StatusOr<UniqueIdContents> contents = ParseUniqueId(*id);
  const StatusOr<UniqueFd> first = ClaimListener(*contents);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(BoundAddress(first->get())->port(), contents->root.port);
  const StatusOr<UniqueFd> second = ClaimListener(*contents);
  EXPECT_EQ(second.status().code(), gwInvalidUsage);
  EXPECT_THAT(second.status().ToString(), HasSubstr("process that created it"));
}

TEST(UniqueId, ChildOfForkMayNotClaim) {
  const StatusOr<UniqueId> id = CreateUniqueId({.host = "127.0.0.1"});
  const StatusOr<UniqueIdContents> contents = ParseUniqueId(*id);
  const pid_t child = fork();
  if (child == 0) _exit(ClaimListener(*contents).status().code());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), gwInvalidUsage);
  EXPECT_TRUE(ClaimListener(*contents).ok());
}

// The parent is gone, as it were, when its own descriptor is closed.
TEST(UniqueId, AChildKeepsNoListenerOfItsParent) {
  const UniqueIdContents contents = *ParseUniqueId(*CreateUniqueId({.host = "127.0.0.1"}));
  const SocketAddress address = *ResolveHost(contents.root);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd reads(ends[0]), writes(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    (void)!write(writes.get(), "", 1);
    pause();
    _exit(0);
  }
  char runs;
  ASSERT_EQ(read(reads.get(), &runs, 1), 1);
  StatusOr<UniqueFd> listener = ClaimListener(contents);
  ASSERT_TRUE(listener.ok()) << "it is the parent's own";
  listener->reset();
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(connect(fd.get(), address.get(), address.bytes()), -1) << "the child listens";
  EXPECT_EQ(errno, ECONNREFUSED);
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(UniqueId, DamagedBytesAreRefused) {
  const StatusOr<UniqueId> id = CreateUniqueId({.host = "127.0.0.1"});
  EXPECT_EQ(ParseUniqueId(UniqueId{}).status().code(), gwInvalidArgument);
  for (int bit = 0; bit < kUniqueIdBytes * 8; ++bit) {
    UniqueId bad = *id;
    bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_FALSE(ParseUniqueId(bad).ok()) << bit;
  }
}

TEST(UniqueId, WrongPlacesAreNamed) {
  const StatusOr<UniqueId> interface = CreateUniqueId({.interface = "nosuch0"});
  EXPECT_EQ(interface.status().code(), gwInvalidArgument);
  EXPECT_THAT(interface.status().ToString(), HasSubstr("nosuch0"));
  EXPECT_THAT(interface.status().ToString(), HasSubstr("lo"));
  EXPECT_THAT(CreateUniqueId({.host = "0.0.0.0"}).status().ToString(),
              HasSubstr("every interface"));
  const StatusOr<UniqueId> loopback = CreateUniqueId({.interface = "lo"});
  ASSERT_TRUE(loopback.ok());
  EXPECT_EQ(ParseUniqueId(*loopback)->root.host, "127.0.0.1");
}

TEST(Address, ParsesHostsAndPorts) {
  EXPECT_EQ(*ParseHostPort("a:1"), (HostPort{"a", 1}));
  EXPECT_EQ(*ParseHostPort("1.2.3.4:65535"), (HostPort{"1.2.3.4", 65535}));
  EXPECT_EQ(*ParseHostPort("[::1]:80"), (HostPort{"::1", 80}));
  for (const char* wrong : {"", "a", ":1", "a:", "a:0", "a:65536", "a:1x", "::1:80", "[::1]80"}) {
    EXPECT_FALSE(ParseHostPort(wrong).ok()) << wrong;
  }
}

TEST(Address, KnowsLoopbackAndAny) {
  EXPECT_TRUE(ResolveHost({"127.9.9.9", 1})->IsLoopback());
  EXPECT_TRUE(ResolveHost({"::1", 1})->IsLoopback());
  EXPECT_FALSE(ResolveHost({"10.0.0.1", 1})->IsLoopback());
  EXPECT_TRUE(ResolveHost({"::ffff:127.0.0.1", 1})->IsLoopback());
  EXPECT_TRUE(ResolveHost({"0.0.0.0", 1})->IsAny());
  EXPECT_TRUE(ResolveHost({"::", 1})->IsAny());
  EXPECT_EQ(ResolveHost({"::1", 9})->ToString(), "[::1]:9");
  EXPECT_TRUE(ResolveRoot({"localhost", 1})->IsLoopback());
  EXPECT_TRUE(ResolveRoot({"127.0.0.1", 1})->IsLoopback());
}

TEST(Address, IsTheOneThatThePeerIsReachedFrom) {
  const auto toward = [](const std::string& host) {
    return AddressToward(*ResolveHost({host, 29600}), 4000).ToString();
  };
  EXPECT_EQ(toward("127.0.0.1"), "127.0.0.1:4000");
  const bool has_v6 = Listen(*ResolveHost({"::1", 0})).ok();
  EXPECT_EQ(has_v6 ? toward("::1") : "[::1]:4000", "[::1]:4000");
  const SocketAddress own = DefaultAddress(4000);
  EXPECT_EQ(AddressToward(own, 4000).ToString(), own.ToString());
}

TEST(Address, IsTheDefaultOneWhereNoWayLeadsToThePeer) {
  const SocketAddress nowhere = *ResolveHost({"fe80::1", 29600});  // on no interface
  EXPECT_EQ(AddressToward(nowhere, 4000).ToString(), DefaultAddress(4000).ToString());
}

SocketAddress Numeric(const char* host) { return *ResolveHost({host, 0}); }

TEST(Address, IsOneThatOthersReachIfThereIsAny) {
  const std::vector<InterfaceRow> all = {
      {"lo", Numeric("127.0.0.1"), true},       {"usb0", Numeric("169.254.3.1"), true},
      {"docker0", Numeric("172.17.0.1"), true}, {"eth1", Numeric("10.0.1.1"), false},
      {"eth0", Numeric("10.0.0.1"), true},      {"usb0", Numeric("fe80::1"), true},
      {"eth0", Numeric("2001:db8::7"), true}};
  const auto without = [&](size_t count) {
    return std::vector<InterfaceRow>(all.begin(), all.end() - static_cast<std::ptrdiff_t>(count));
  };
  const auto reached = [](auto v4, const auto& rows, auto v6) {
    return MostReachable(v4, rows, v6).ToString();
  };
  const SocketAddress v4 = Numeric("192.0.2.9"), v6 = Numeric("2001:db8::9");
  const std::vector<InterfaceRow> six = {all.back()};
  EXPECT_EQ(reached(std::optional(v4), all, std::optional(v6)), "192.0.2.9:0");
  EXPECT_EQ(reached(std::nullopt, all, std::optional(v6)), "10.0.0.1:0");
  EXPECT_EQ(reached(std::nullopt, six, std::optional(v6)), "[2001:db8::9]:0");
  EXPECT_EQ(reached(std::nullopt, six, std::nullopt), "[2001:db8::7]:0");
  EXPECT_EQ(reached(std::nullopt, without(3), std::nullopt), "169.254.3.1:0") << "nothing else";
  EXPECT_EQ(reached(std::nullopt, std::vector<InterfaceRow>(), std::nullopt), "127.0.0.1:0");
}

TEST(Address, BridgesOfContainersCarryNoRanks) {
  for (const char* name :
       {"docker0", "docker_gwbridge", "br-1f0c66a9e0de", "cni0", "podman1", "virbr0"}) {
    EXPECT_FALSE(CarriesRanks(name)) << name;
  }
  for (const char* name : {"eth0", "ib0", "lo", "br0", "br-lan"})
    EXPECT_TRUE(CarriesRanks(name)) << name;
}

}  // namespace
}  // namespace gradwire
