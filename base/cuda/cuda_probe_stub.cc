// Built instead of cuda_probe.cu where there is no nvcc.

#include "base/cuda/cuda_probe.h"

namespace gradwire {

int CudaBuildVersion() { return 0; }
int CudaDriverVersion() { return 0; }
int CudaDeviceCount() { return 0; }
bool CudaSumsRight(int) { return false; }

}  // namespace gradwire
