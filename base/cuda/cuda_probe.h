// What this build and this machine know of CUDA, for `gradwire info` and `gradwire doctor`.
//
// Every function may be called from any thread, with or without a device, a driver or CUDA in the
// build; none of them fails. The first call that touches a device creates a CUDA context, which
// takes tenths of a second.

#ifndef GRADWIRE_BASE_CUDA_CUDA_PROBE_H_
#define GRADWIRE_BASE_CUDA_CUDA_PROBE_H_

namespace gradwire {

// The toolkit's version as 1000 * major + 10 * minor (13000 is 13.0), 0 where CUDA was left out of
// the build.
int CudaBuildVersion();

// The newest version the installed driver supports, in the same form. 0 without a driver.
int CudaDriverVersion();

// Usable devices; 0 where there is no device, no driver or no CUDA in the build.
int CudaDeviceCount();

// Sums 0 .. count-1 on the current device and says whether the result is right: false where there
// is no usable device, too. count is in elements, 0 to 65,536, so that the sum fits an int. So far
// only tests ask: whether kernels of this build run here.
bool CudaSumsRight(int count);

}  // namespace gradwire

#endif  // GRADWIRE_BASE_CUDA_CUDA_PROBE_H_
