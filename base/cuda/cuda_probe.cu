#include <cuda_runtime.h>

#include <thrust/iterator/counting_iterator.h>
#include <cstddef>
#include <cub/device/device_reduce.cuh>

#include "base/cuda/cuda_probe.h"

namespace gradwire {
namespace {

// Device memory that is freed on every way out. Null where the allocation failed.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes) {
    if (cudaMalloc(&data_, bytes) != cudaSuccess) data_ = nullptr;
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace

int CudaBuildVersion() { return CUDART_VERSION; }

int CudaDriverVersion() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

int CudaDeviceCount() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

bool CudaSumsRight(int count) {
  if (count < 0 || count > 65536 || CudaDeviceCount() == 0) return false;
  const thrust::counting_iterator<int> numbers(0);
  const DeviceBuffer sum(sizeof(int));
  std::size_t scratch_bytes = 0;
  if (!sum.data()) return false;
  // CUB's protocol: the first call, without scratch memory, only reports how much it needs.
  if (cub::DeviceReduce::Sum(nullptr, scratch_bytes, numbers, static_cast<int*>(sum.data()),
                             count) != cudaSuccess) {
    return false;
  }
  const DeviceBuffer scratch(scratch_bytes);
  if (!scratch.data() ||
      cub::DeviceReduce::Sum(scratch.data(), scratch_bytes, numbers, static_cast<int*>(sum.data()),
                             count) != cudaSuccess) {
    return false;
  }
  int result = -1;
  if (cudaMemcpy(&result, sum.data(), sizeof(result), cudaMemcpyDeviceToHost) != cudaSuccess) {
    return false;
  }
  return result == static_cast<int>(static_cast<long long>(count) * (count - 1) / 2);
}

}  // namespace gradwire
