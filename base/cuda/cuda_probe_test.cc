#include "base/cuda/cuda_probe.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(CudaProbe, ReportsTheToolkitOfTheBuild) {
  constexpr int kOldestSupported = 12000;
  if (BUILT_WITH_CUDA) {
    EXPECT_GE(CudaBuildVersion(), kOldestSupported);
  } else {
    EXPECT_EQ(CudaBuildVersion(), 0);
    EXPECT_EQ(CudaDriverVersion(), 0);
    EXPECT_EQ(CudaDeviceCount(), 0);
  }
}

TEST(CudaProbe, NoDeviceIsNoError) {
  if (CudaDeviceCount() > 0) GTEST_SKIP() << "this machine has a CUDA device";
  EXPECT_EQ(CudaDeviceCount(), 0);
  EXPECT_FALSE(CudaSumsRight(10));
}

TEST(CudaProbe, SumsOnTheDevice) {
  if (CudaDeviceCount() == 0) GTEST_SKIP() << "no CUDA device";
  for (int count : {0, 1, 31, 1000, 65536}) EXPECT_TRUE(CudaSumsRight(count)) << count;
  EXPECT_FALSE(CudaSumsRight(-1));
  EXPECT_FALSE(CudaSumsRight(65537));
}

}  // namespace
}  // namespace gradwire
