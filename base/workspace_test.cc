#include "base/workspace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

namespace gradwire {
namespace {

bool IsAligned(const AlignedBuffer& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlign == 0;
}

TEST(AlignedBuffer, StartsEmpty) {
  const AlignedBuffer buffer;
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0);
  EXPECT_TRUE(buffer.bytes().empty());
}

TEST(AlignedBuffer, GivesAlignedMemoryOfEverySize) {
  for (const int64_t bytes : {1, 7, 63, 64, 65, 4096, 1000003}) {
    AlignedBuffer buffer;
    ASSERT_TRUE(buffer.EnsureBytes(bytes).ok());
    EXPECT_TRUE(IsAligned(buffer)) << bytes;
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_GE(buffer.capacity(), bytes);
    EXPECT_EQ(buffer.capacity() % kBufferAlign, 0);
    std::memset(buffer.data(), 0xA5, static_cast<size_t>(buffer.capacity()));
    EXPECT_EQ(buffer.as<uint8_t>()[bytes - 1], 0xA5);
    EXPECT_EQ(buffer.bytes().size, bytes);
    EXPECT_EQ(buffer.bytes().data, buffer.data());
  }
}

// Whether the kernel has been asked for huge pages of the mapping that holds `address`: "hg" among
// its flags.
bool IsAdvisedHuge(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
      is_inside = begin <= wanted && wanted < end;
    if (is_inside && line.starts_with("VmFlags:")) return line.find(" hg") != line.npos;
  }
  return false;
}

TEST(AlignedBuffer, AsksForHugePagesWhereItHoldsTwo) {
  if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0)
    GTEST_SKIP() << "this kernel has no transparent huge pages";
  AlignedBuffer large, small;
  ASSERT_TRUE(large.EnsureBytes(2 * kHugePageBytes + 100).ok());
  ASSERT_TRUE(small.EnsureBytes(kHugePageBytes).ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % kHugePageBytes, 0u);
  EXPECT_TRUE(IsAdvisedHuge(large.data()));
  EXPECT_TRUE(IsAdvisedHuge(large.data() + 2 * kHugePageBytes - 1));
  EXPECT_FALSE(IsAdvisedHuge(large.data() + 2 * kHugePageBytes));
  EXPECT_FALSE(IsAdvisedHuge(small.data()));
}

TEST(AlignedBuffer, KeepsMemoryThatIsLargeEnough) {
  AlignedBuffer buffer;
  ASSERT_TRUE(buffer.EnsureBytes(1000).ok());
  const std::byte* const data = buffer.data();
  ASSERT_TRUE(buffer.EnsureBytes(10).ok());
  EXPECT_EQ(buffer.size(), 10);
  ASSERT_TRUE(buffer.EnsureBytes(1000).ok());
  EXPECT_EQ(buffer.data(), data);
  ASSERT_TRUE(buffer.EnsureBytes(0).ok());
  EXPECT_EQ(buffer.data(), data);
  buffer.Reset();
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.capacity(), 0);
}

TEST(AlignedBuffer, MovesItsMemory) {
  AlignedBuffer from;
  ASSERT_TRUE(from.EnsureBytes(100).ok());
  const std::byte* const data = from.data();
  AlignedBuffer to(std::move(from));
  EXPECT_EQ(to.data(), data);
  EXPECT_EQ(to.size(), 100);
  EXPECT_EQ(from.size(), 0);  // NOLINT(bugprone-use-after-move): promised to be empty
  EXPECT_EQ(from.data(), nullptr);
  EXPECT_EQ(from.capacity(), 0);
  from = std::move(to);
  EXPECT_EQ(from.data(), data);
  EXPECT_EQ(to.capacity(), 0);  // NOLINT(bugprone-use-after-move)
}

TEST(AlignedBuffer, FailsWithoutEffect) {
  AlignedBuffer buffer;
  ASSERT_TRUE(buffer.EnsureBytes(100).ok());
  const std::byte* const data = buffer.data();
  EXPECT_EQ(buffer.EnsureBytes(-1).code(), gwInvalidArgument);
  const Status status = buffer.EnsureBytes(INT64_MAX);
  EXPECT_EQ(status.code(), gwSystemError);
  EXPECT_NE(status.detail().message.find("9223372036854775807 bytes"), std::string::npos);
  EXPECT_EQ(buffer.data(), data);
  EXPECT_EQ(buffer.size(), 100);
}

}  // namespace
}  // namespace gradwire
