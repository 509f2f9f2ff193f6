/* gradwire: gradients made small for the network, summed by any all-reduce.
 *
 * The one public header: C99, needs neither CUDA nor C++. Shapes and names follow NCCL with `gw` for
 * `nccl`; result codes 0-8 and the values of data types and reduction operations equal NCCL's, so that
 * porting is mostly a rename.
 *
 * Conventions that hold for every function:
 *   counts      are elements, never bytes; 64 bits wide.
 *   ranks       all ranks of a communicator call the same collectives in the same order; what must be
 *               equal on all ranks (count, type, operation, root, tensor, specification) is checked by a
 *               signature on the wire, and a difference is gwMismatch on all of them, not a hang.
 *   threads     one thread at a time per communicator. Two at once are detected: gwInvalidUsage, no
 *               effect. gwCommAbort, gwCommGetAsyncError and gwGetLastError may be called from any thread.
 *   errors      gwInvalidArgument and gwInvalidUsage have no effect and leave the communicator usable.
 *               gwGetLastError tells rank, peer, operation, tensor and what to change.
 *   waiting     no call waits without a bound: every one ends in success or an error.
 *   fork        a communicator belongs to the process that made it: a child gets gwInvalidUsage.
 */
#ifndef GRADWIRE_GRADWIRE_H_
#define GRADWIRE_GRADWIRE_H_

#include <stddef.h>
#include <stdint.h>

#define GW_MAJOR 0
#define GW_MINOR 1
#define GW_PATCH 0
#define GW_VERSION_CODE (GW_MAJOR * 10000 + GW_MINOR * 100 + GW_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* Result of a call. 0-8 as in NCCL; from 100 up grouped by what is broken. */
typedef enum {
  gwSuccess = 0,
  gwUnhandledCudaError = 1, /* the CUDA runtime failed */
  gwSystemError = 2,        /* the operating system failed (memory, file, socket) */
  gwInternalError = 3,      /* a defect of gradwire itself */
  gwInvalidArgument = 4,    /* an argument is wrong: no effect, everything still usable */
  gwInvalidUsage = 5,       /* the call is not allowed now: no effect, everything still usable */
  gwRemoteError = 6,        /* another rank failed and said so */
  gwInProgress = 7,         /* not finished yet */
  gwTimeout = 8,            /* the wait's bound passed; the thing waited for stays valid */
  /* this operation failed; retrying the step is fine */
  gwAborted = 100,     /* the training step was revoked; run it again */
  gwMismatch = 101,    /* ranks disagree about an operation; field and both values in the error text */
  gwDataCorrupt = 102, /* bytes from the wire or a file are damaged */
  gwNonFinite = 103,   /* a NaN or infinity met the policy `nonfinite=error` */
  /* a peer is gone; rebuild without that rank */
  gwPeerLost = 110,
  /* the communicator is unusable: destroy it */
  gwRevoked = 120,
  gwTransportUnavailable = 121, /* the transport asked for cannot work here */
  gwUnauthenticated = 122       /* the peers do not share the job's secret */
} gwResult_t;

/* Element types, values as in NCCL. */
typedef enum {
  gwInt8 = 0,
  gwUint8 = 1,
  gwInt32 = 2,
  gwUint32 = 3,
  gwInt64 = 4,
  gwUint64 = 5,
  gwFloat16 = 6,
  gwFloat32 = 7,
  gwFloat64 = 8,
  gwBfloat16 = 9
} gwDataType_t;
#define GW_NUM_TYPES 10

/* Reduction operations, values as in NCCL. */
typedef enum { gwSum = 0, gwProd = 1, gwMax = 2, gwMin = 3, gwAvg = 4 } gwRedOp_t;
#define GW_NUM_OPS 5

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* GRADWIRE_GRADWIRE_H_ */
