// What needs no second process: the loader, the plan, the address and the frame.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transports/ucx/ucx_address.h"
#include "transports/ucx/ucx_api.h"
#include "transports/ucx/ucx_plan.h"
#include "transports/ucx/ucx_wire.h"

namespace gradwire {
namespace {

TEST(UcxApiTest, MissingLibraryNamesItAndTheFix) {
  const auto api = OpenUcx("libgradwire_has_no_such.so.0");
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.status().code(), gwTransportUnavailable);
  const std::string text = api.status().ToString();
  EXPECT_NE(text.find("ucx"), text.npos) << text;
  EXPECT_NE(text.find("libgradwire_has_no_such.so.0"), text.npos) << text;
  EXPECT_NE(text.find("apt-get install libucx0"), text.npos) << text;
}

TEST(UcxApiTest, OtherLibraryNamesTheMissingFunction) {
  const auto api = OpenUcx("libm.so.6");
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.status().code(), gwTransportUnavailable);
  EXPECT_NE(api.status().ToString().find("ucp_get_version"), std::string::npos);
}

TEST(UcxApiTest, InstalledIsWhatIsThereWorkingOrNot) {
  EXPECT_FALSE(LibraryIsThere("libgradwire_has_no_such.so.0"));
  EXPECT_TRUE(LibraryIsThere("libm.so.6"));
}

TEST(UcxPlanTest, SettingsAreReadFromWhatUcxPrints) {
  const UcxUserSettings user =
      ParseUcxSettings("#\n# title\nUCX_SOME_TLS=no\nUCX_NET_DEVICES=eth7\nUCX_TLS=tcp,self\n");
  EXPECT_EQ(user.tls, "tcp,self");
  EXPECT_EQ(user.net_devices, "eth7");
  EXPECT_EQ(ParseUcxSettings("").tls, "all");
}

const std::vector<std::string> kInterfaces = {"docker0", "eth0", "eth1", "lo"};

std::string Setting(const UcxPlan& plan, const std::string& name) {
  for (const UcxSetting& setting : plan.settings) {
    if (setting.name == name) return setting.value;
  }
  return "unset";
}

TEST(UcxPlanTest, OneHostIsSharedMemory) {
  const auto plan = PlanUcx({.all_ranks_on_host = true}, {}, kInterfaces);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->fabric, UcxFabric::kShared);
  EXPECT_EQ(Setting(*plan, "TLS"), "posix,self");
  EXPECT_EQ(Setting(*plan, "MM_ERROR_HANDLING"), "y");
  EXPECT_EQ(Setting(*plan, "RNDV_THRESH"), "inf");
  EXPECT_EQ(Setting(*plan, "NET_DEVICES"), "unset");
  EXPECT_EQ(Setting(*plan, "KEEPALIVE_INTERVAL"), "inf");
  EXPECT_EQ(plan->fragment_bytes, 32 << 10);
  EXPECT_EQ(plan->fragments_in_flight, 8);
  EXPECT_EQ(std::stoi(Setting(*plan, "MM_FIFO_ELEM_SIZE")) % 64, 0);
}

TEST(UcxPlanTest, ManyHostsAreTcpWithoutLoopbackAndBridges) {
  const auto plan =
      PlanUcx({.all_ranks_on_host = false, .death_timeout_ns = 2 * kNsPerSecond}, {}, kInterfaces);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->fabric, UcxFabric::kTcp);
  EXPECT_EQ(Setting(*plan, "TLS"), "tcp,self");
  EXPECT_EQ(Setting(*plan, "NET_DEVICES"), "eth0,eth1");
  EXPECT_EQ(Setting(*plan, "KEEPALIVE_INTERVAL"), "1000ms");
  EXPECT_EQ(plan->fragment_bytes, 63 << 10);
  EXPECT_EQ(plan->fragments_in_flight, 4);
}

TEST(UcxPlanTest, InterfaceMustExist) {
  const auto good = PlanUcx({.interface = "eth1", .all_ranks_on_host = false}, {}, kInterfaces);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(Setting(*good, "NET_DEVICES"), "eth1");
  const auto bad = PlanUcx({.interface = "eth9", .all_ranks_on_host = false}, {}, kInterfaces);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), gwTransportUnavailable);
  EXPECT_NE(bad.status().detail().hint.find("eth1"), std::string::npos);
}

TEST(UcxPlanTest, WhatTheUserSetWins) {
  const UcxUserSettings user = {.tls = "tcp,self", .net_devices = "eth7"};
  const auto plan = PlanUcx({.interface = "eth0", .all_ranks_on_host = true}, user, kInterfaces);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->fabric, UcxFabric::kTcp);
  EXPECT_EQ(Setting(*plan, "TLS"), "unset");
  EXPECT_EQ(Setting(*plan, "NET_DEVICES"), "unset");
  const auto mixed = PlanUcx({.all_ranks_on_host = true}, {.tls = "sm,tcp,self"}, kInterfaces);
  ASSERT_TRUE(mixed.ok());
  EXPECT_EQ(mixed->fabric, UcxFabric::kOther);
  EXPECT_EQ(Setting(*mixed, "MM_ERROR_HANDLING"), "y");
}

TEST(UcxPlanTest, SharedMemoryDoesNotReachOtherHosts) {
  const auto plan = PlanUcx({.all_ranks_on_host = false}, {.tls = "posix,self"}, kInterfaces);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), gwTransportUnavailable);
  EXPECT_NE(plan.status().ToString().find("UCX_TLS=posix,self"), std::string::npos);
}

TEST(UcxPlanTest, FragmentSizeIsChecked) {
  for (const int32_t bytes : {-64, 1, 65344}) {
    const auto plan = PlanUcx({.fragment_bytes = bytes}, {}, kInterfaces);
    ASSERT_FALSE(plan.ok()) << bytes;
    EXPECT_EQ(plan.status().code(), gwInvalidArgument);
  }
  const auto largest = PlanUcx({.fragment_bytes = 65280}, {}, kInterfaces);
  ASSERT_TRUE(largest.ok());
  EXPECT_LE(std::stoi(Setting(*largest, "MM_FIFO_ELEM_SIZE")), 65472);
}

TEST(UcxAddressTest, RoundTripAndHostileBytes) {
  const UcxAddress mine = {.fabric = UcxFabric::kTcp,
                           .rank = 3,
                           .fragment_bytes = 64512,
                           .major = 1,
                           .minor = 13,
                           .worker = std::string("a\0b", 3)};
  const std::string bytes = EncodeUcxAddress(mine);
  const auto back = DecodeUcxAddress(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->worker, mine.worker);
  EXPECT_TRUE(CheckUcxPeer(mine, *back, 3).ok());
  EXPECT_EQ(CheckUcxPeer(mine, *back, 4).code(), gwInvalidArgument);
  for (size_t n = 0; n <= 16; ++n) EXPECT_FALSE(DecodeUcxAddress(bytes.substr(0, n)).ok()) << n;
  EXPECT_FALSE(DecodeUcxAddress("loopback pid 17 hub 0x7f rank 1").ok());
  std::string unknown = bytes;
  unknown[6] = 9;
  EXPECT_FALSE(DecodeUcxAddress(unknown).ok());
}

TEST(UcxAddressTest, DifferentSetUpsNameTheField) {
  const UcxAddress mine = {.fabric = UcxFabric::kTcp, .rank = 1, .fragment_bytes = 64};
  UcxAddress theirs = mine;
  theirs.fragment_bytes = 128;
  const Status status = CheckUcxPeer(mine, theirs, 1);
  EXPECT_EQ(status.code(), gwTransportUnavailable);
  EXPECT_EQ(status.detail().field, "fragment bytes");
  EXPECT_EQ(status.detail().peer, 1);
}

struct Packed {
  explicit Packed(int64_t bytes) : source(bytes) {
    for (int64_t i = 0; i < bytes; ++i) source[i] = static_cast<std::byte>(i * 7 + 1);
  }
  // The frame, taken in pieces of `piece` bytes.
  std::vector<std::byte> Frame(size_t piece) {
    std::vector<std::byte> frame(slot.frame_bytes());
    for (size_t at = 0; at < frame.size();) {
      const size_t n = slot.Pack(at, frame.data() + at, std::min(piece, frame.size() - at));
      EXPECT_GT(n, 0u);
      if (n == 0) break;
      at += n;
    }
    return frame;
  }
  std::vector<std::byte> source;
  UcxSlot slot;
};

ConstBytes View(const std::vector<std::byte>& v) {
  return {v.data(), static_cast<int64_t>(v.size())};
}

TEST(UcxWireTest, FramesComeApartAsTheyWerePut) {
  for (const UcxLayout& layout : {kUcxQueueLayout, kUcxStreamLayout, kUcxSegmentLayout}) {
    for (const int64_t bytes : {0, 1, 63, 64, 65, 4096, 64512}) {
      Packed packed(bytes);
      const FrameHeader header = {.op_seq = 77, .fragment_bytes = static_cast<uint32_t>(bytes)};
      FillSlot(layout, 5, header, View(packed.source), &packed.slot);
      EXPECT_LE(packed.slot.frame_bytes() + 28 + layout.ucx_bytes,
                static_cast<size_t>(bytes + kUcxSegmentOverheadBytes));
      const std::vector<std::byte> whole = packed.Frame(SIZE_MAX);
      EXPECT_EQ(whole, packed.Frame(1)) << bytes;
      EXPECT_EQ(whole, packed.Frame(61)) << bytes;
      UcxFrame frame;
      ASSERT_EQ(ParseUcxFrame(View(whole), {}, 6, &frame), UcxFrameVerdict::kFrame) << bytes;
      EXPECT_EQ(frame.src, 5);
      EXPECT_EQ(std::memcmp(&frame.header, &header, sizeof header), 0);
      ASSERT_EQ(frame.payload.size, bytes);
      EXPECT_TRUE(std::equal(packed.source.begin(), packed.source.end(), frame.payload.data));
      EXPECT_EQ(ParseUcxFrame(View(whole), {}, 5, &frame), UcxFrameVerdict::kMalformed);
    }
  }
}

TEST(UcxWireTest, PayloadBesideTheHeadIsTakenWhole) {
  Packed packed(4096);
  UcxHead head;
  FillHead(kUcxStreamLayout, 3, {.op_seq = 5}, 4096, &head);
  const ConstBytes message = {head.bytes, static_cast<int64_t>(head.size)};
  UcxFrame frame;
  ASSERT_EQ(ParseUcxFrame(message, View(packed.source), 4, &frame), UcxFrameVerdict::kFrame);
  EXPECT_EQ(frame.src, 3);
  EXPECT_EQ(frame.header.op_seq, 5u);
  EXPECT_EQ(frame.payload.data, packed.source.data());
  EXPECT_EQ(frame.payload.size, 4096);
  for (const int64_t wrong : {1, 4095, 4097}) {
    EXPECT_EQ(ParseUcxFrame(message, {packed.source.data(), wrong}, 4, &frame),
              UcxFrameVerdict::kMalformed);
  }
  EXPECT_EQ(ParseUcxFrame(message, {}, 4, &frame), UcxFrameVerdict::kMalformed);
}

TEST(UcxWireTest, PayloadsAreAlignedInTheReceiversMemory) {
  UcxHead head;
  FillHead(kUcxQueueLayout, 0, {}, 64, &head);
  EXPECT_EQ((28 + kUcxQueueLayout.ucx_bytes + head.size) % 64, 0u);
  FillHead(kUcxStreamLayout, 0, {}, 64, &head);
  EXPECT_EQ((kUcxStreamLayout.ucx_bytes + head.size) % 64, 0u);
  FillHead(kUcxSegmentLayout, 0, {}, 64, &head);
  EXPECT_EQ((kUcxSegmentLayout.ucx_bytes + head.size) % 64, 0u);
}

TEST(UcxWireTest, CutOffFrameReadsNoSourceAndIsDropped) {
  Packed packed(4096);
  FillSlot(kUcxSegmentLayout, 1, {}, View(packed.source), &packed.slot);
  packed.slot.CutOff();
  packed.source.clear();
  packed.source.shrink_to_fit();
  UcxFrame frame;
  EXPECT_EQ(ParseUcxFrame(View(packed.Frame(100)), {}, 2, &frame), UcxFrameVerdict::kCancelled);
}

TEST(UcxWireTest, HostileMessagesStayInside) {
  Packed packed(64);
  FillSlot(kUcxSegmentLayout, 1, {}, View(packed.source), &packed.slot);
  const std::vector<std::byte> whole = packed.Frame(SIZE_MAX);
  UcxFrame frame;
  for (size_t n = 0; n < whole.size(); ++n) {
    const std::vector<std::byte> part(whole.begin(), whole.begin() + n);
    EXPECT_EQ(ParseUcxFrame(View(part), {}, 2, &frame), UcxFrameVerdict::kMalformed) << n;
  }
  for (const UcxPrefix& prefix :
       {UcxPrefix{.payload_bytes = 65, .src = 1, .payload_at = 120},
        UcxPrefix{.payload_bytes = UINT32_MAX, .src = 1, .payload_at = 120},
        UcxPrefix{.payload_bytes = 0, .src = 1, .payload_at = 71},
        UcxPrefix{.payload_bytes = 0, .src = 1, .payload_at = 65535}}) {
    std::vector<std::byte> bad = whole;
    std::memcpy(bad.data(), &prefix, sizeof prefix);
    EXPECT_EQ(ParseUcxFrame(View(bad), {}, 2, &frame), UcxFrameVerdict::kMalformed);
  }
}

TEST(UcxWireTest, PoolUsesItsSlotsAgain) {
  UcxSlotPool pool;
  UcxSlot* first = pool.Take();
  UcxSlot* second = pool.Take();
  EXPECT_NE(first, second);
  pool.Release(first);
  EXPECT_EQ(pool.Take(), first);
  EXPECT_EQ(pool.slots().size(), 2u);
}

}  // namespace
}  // namespace gradwire
