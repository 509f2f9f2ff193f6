/* gradwire: compresses gradients for the network and sums them over all ranks.
 *
 * The one public header: C99, needs neither CUDA nor C++. Shapes and names follow NCCL with `gw`
 * for `nccl`; result codes 0-8 and the values of data types and reduction operations equal NCCL's,
 * so that porting is mostly a rename.
 *
 * Conventions that hold for every function:
 *   counts      are elements, never bytes; 64 bits wide.
 *   ranks       all ranks of a communicator call the same collectives in the same order; what must
 *               be equal on all ranks (count, type, operation, root, tensor, specification) is
 *               checked by a signature on the wire, and a difference is gwMismatch on all of them,
 *               not a hang. Outside a step a rank that was through already hears of it in its next
 *               call, and one that is slower may hear of it in an earlier one.
 *   threads     one thread at a time per communicator. Two at once are detected: gwInvalidUsage, no
 *               effect. From any thread: gwCommAbort, gwCommGetAsyncError, gwCommCount,
 *               gwCommUserRank, gwGetLastError, gwRequestFree.
 *   errors      gwInvalidArgument and gwInvalidUsage have no effect and leave the communicator
 *               usable. gwGetLastError tells rank, peer, operation, tensor and what to change.
 *   memory      a call that finds none returns gwSystemError: no exception leaves any. What it was
 *               to do may be done in part: destroy the communicator, unless its call says else.
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
#define GW_ENUM : int /* may hold what a caller gets wrong */
#else
#define GW_ENUM
#endif

/* Result of a call. 0-8 as in NCCL; from 100 up grouped by what is broken. */
typedef enum GW_ENUM {
  gwSuccess = 0,
  gwUnhandledCudaError = 1, /* the CUDA runtime failed */
  gwSystemError = 2,        /* the operating system failed (memory, file, socket) */
  gwInternalError = 3,      /* a defect of gradwire itself */
  gwInvalidArgument = 4,    /* an argument is wrong: no effect, everything still usable */
  gwInvalidUsage = 5,       /* the call is not allowed now: no effect, everything still usable */
  gwRemoteError = 6,        /* another rank failed and said so */
  gwInProgress = 7,         /* not finished yet */
  gwTimeout = 8,            /* a wait's bound passed: what was waited for stays valid; or an
                             * operation made no progress for op_timeout_ms and was revoked */
  /* this operation failed; retrying the step is fine */
  gwAborted = 100,  /* the training step was revoked; run it again */
  gwMismatch = 101, /* ranks disagree about an operation; field and both values in the error text */
  gwDataCorrupt = 102, /* bytes from the wire or a file are damaged */
  gwNonFinite = 103,   /* a NaN or infinity met the policy `nonfinite=error`: gwStepEnd */
  /* a peer is gone; rebuild without that rank */
  gwPeerLost = 110,
  /* the communicator is unusable: destroy it */
  gwRevoked = 120,
  gwTransportUnavailable = 121, /* the transport asked for cannot work here */
  gwUnauthenticated = 122       /* the peers do not share the job's secret */
} gwResult_t;

/* Element types, values as in NCCL. */
typedef enum GW_ENUM {
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
typedef enum GW_ENUM { gwSum = 0, gwProd = 1, gwMax = 2, gwMin = 3, gwAvg = 4 } gwRedOp_t;
#define GW_NUM_OPS 5

#define GW_API __attribute__((visibility("default")))

/* ---- version and errors ---- */

/* Writes GW_VERSION_CODE of the library that runs. `version`: host, not null (gwInvalidArgument).
 * Any thread. */
GW_API gwResult_t gwGetVersion(int* version);

/* Text of a result code; never null, valid for ever. Any thread. */
GW_API const char* gwGetErrorString(gwResult_t result);

/* Levels of lines of the log, each more verbose than the one before: the setting `debug`. */
typedef enum GW_ENUM { gwLogError = 2, gwLogWarn = 3, gwLogInfo = 4, gwLogTrace = 5 } gwLogLevel_t;

/* Gets a line of the log: text without a line feed, valid during the call. Called from any thread,
 * several at a time. It must call no function of gradwire, nor wait for a thread that does: lines
 * are written from amid the library's work. A C++ exception from it is dropped. */
typedef void (*gwLogCallback_t)(void* user, gwLogLevel_t level, const char* line);

/* From now on `callback` gets the log of this process, and neither standard error nor `debug_file`;
 * NULL: they again. `user` is handed to it and may be NULL. Lines being written at that moment may
 * still go to the previous callback, so what that uses must stay valid until the process ends. A
 * child of fork keeps the callback. Which lines there are is told by the settings `debug` (warnings
 * and errors by default) and `debug_subsys`. gwSystemError: no memory; the callback before stays.
 * Any thread, also before the first communicator. */
GW_API gwResult_t gwSetLogCallback(gwLogCallback_t callback, void* user);

typedef struct gwComm* gwComm_t;
typedef struct gwTensor* gwTensor_t;
typedef struct gwRequest* gwRequest_t;
/* A CUDA stream for device buffers; NULL for host buffers. This version takes host buffers only:
 * anything else is gwInvalidArgument. */
typedef void* gwStream_t;

/* The last error of this communicator, or of the calling thread where `comm` is NULL (a failed
 * initialisation): one line with rank, peer, operation, tensor and what to do. Empty: there was
 * none. Valid until the thread's next call of this function. Any thread. */
GW_API const char* gwGetLastError(gwComm_t comm);

/* ---- communicators ---- */

#define GW_UNIQUE_ID_BYTES 128
/* Holds the address of rank 0 and the job's secret: ship it to all ranks over a channel you trust.
 */
typedef struct {
  char internal[GW_UNIQUE_ID_BYTES];
} gwUniqueId;

/* Opens the place where the ranks will meet. Call it in the process that becomes rank 0, then hand
 * the id to all ranks. It is good for one communicator, also where that fails to start.
 * gwSystemError: no usable address (set GRADWIRE_INTERFACE). Any thread. */
GW_API gwResult_t gwGetUniqueId(gwUniqueId* id);

/* Configuration; fill it with GW_CONFIG_INITIALIZER. The struct only grows: `size`, `magic` and
 * `version` tell which one the caller was compiled with. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  /* "name=value" pairs separated by ';' or line breaks, NULL: none. Names as `gradwire info -c`
   * lists them, for example "compress=auto; transport=ucx". Of two of one name the last counts.
   * They win over GRADWIRE_* variables and gradwire.toml. */
  const char* settings;
} gwConfig_t;
#define GW_CONFIG_MAGIC 0x67777763u
#define GW_CONFIG_INITIALIZER \
  { sizeof(gwConfig_t), GW_CONFIG_MAGIC, GW_VERSION_CODE, NULL }

/* Joins a communicator of `nranks` ranks as `rank`. Collective; returns when all ranks are ready,
 * or with an error that names the missing ones: after init_timeout_ms at rank 0, at the latest
 * after twice that elsewhere. gwInvalidArgument: null, or a rank outside [0, nranks).
 * gwInvalidUsage: the id was used before, or is not of this process, which is rank 0.
 * gwUnauthenticated: another job's. gwMismatch: ranks of another version, world size or
 * configuration. gwTransportUnavailable: the transport asked for cannot work. gwPeerLost: a rank
 * has ended, also rank 0 before this one came, which may have been told of fewer ranks. Nothing is
 * left behind after an error. */
GW_API gwResult_t gwCommInitRank(gwComm_t* comm, int nranks, gwUniqueId id, int rank);
GW_API gwResult_t gwCommInitRankConfig(gwComm_t* comm, int nranks, gwUniqueId id, int rank,
                                       const gwConfig_t* config);

/* The same from the launcher's environment: `gradwire run`, torchrun, Open MPI, MPICH, Slurm. Alone
 * (no launcher): one rank. `config` may be NULL. */
GW_API gwResult_t gwCommInitEnv(gwComm_t* comm, const gwConfig_t* config);

#define GW_SPLIT_NOCOLOR (-1)
/* Splits `comm`: ranks of one `color` (>= 0) form a communicator, in the order of `key`, equal keys
 * in the order of their ranks here. Collective over `comm`, outside groups of calls.
 *   GW_SPLIT_NOCOLOR: this rank joins none, *newcomm becomes NULL.
 *   config NULL: the settings of `comm`; files of record_messages, record_timeline and plan_log get
 *     "-JOB" after their name.
 * A rank that cannot take part gets its own error (gwInvalidArgument, gwTransportUnavailable, ...),
 * and all others gwRemoteError, which names it; gwPeerLost: a rank died; gwTimeout: one did not
 * come within init_timeout_ms. `comm` stays as usable as it was, but for gwPeerLost. If it fails at
 * the very end, ranks that were through have a communicator whose next use fails. The new
 * communicator is independent of `comm`: either may be destroyed first. The random rounding of each
 * group is its own. */
GW_API gwResult_t gwCommSplit(gwComm_t comm, int color, int key, gwComm_t* newcomm,
                              const gwConfig_t* config);

/* Completes what was submitted and takes leave of the other ranks. What does not move is ended by
 * op_timeout_ms; leaving takes at most abort_timeout_ms. Behind collectives outside steps a fifth
 * of that, or a second, is for ranks that are not through with them: one of them may find that
 * ranks disagree. gwPeerLost: a rank died before; gwTimeout: rank 0, which leaves last, names who
 * has not left; any other error: what ended the communicator before, or why something was aborted
 * that no call has told: a step whose outcome nobody has waited for, or collectives outside steps.
 * A step that is open is not committed, which the log tells. Afterwards only gwCommDestroy and
 * functions that only look or give back (statistics, errors, rank, gwRequestWait and -Test,
 * gwTensorDeregister) are allowed. */
GW_API gwResult_t gwCommFinalize(gwComm_t comm);

/* Takes leave if that was not done, and frees everything. Returns within abort_timeout_ms: what the
 * other ranks do not come to by then is ended with gwAborted. The handles of the communicator and
 * of its tensors are invalid from then on and must not be passed to any function; requests may
 * still be freed. NULL: no effect. */
GW_API gwResult_t gwCommDestroy(gwComm_t comm);

/* Ends everything that is under way with gwAborted, here and (as gwPeerLost) at the peers. Any
 * thread, any time, bounded. The communicator must still be destroyed, by a thread that is in no
 * call on it. */
GW_API gwResult_t gwCommAbort(gwComm_t comm);

/* gwSuccess while the communicator is usable, otherwise what ended it. Any thread. */
GW_API gwResult_t gwCommGetAsyncError(gwComm_t comm, gwResult_t* error);

GW_API gwResult_t gwCommCount(gwComm_t comm, int* count);
GW_API gwResult_t gwCommUserRank(gwComm_t comm, int* rank);

/* ---- exact collectives ----
 * Parameters as NCCL's. Ten element types: int8, uint8, int32, uint32, int64, uint64, float16,
 * float32, float64, bfloat16 (all of NCCL's but its two of 8 bits). Five operations: sum,
 * product, maximum, minimum, average. Results are exact: what fp32 (for fp16 and bf16: fp32 with
 * rounding at every addition) gives in a fixed order. gwAvg multiplies the sum by 1/nranks, rounded
 * to float (double for float64), and divides integers towards zero; the sum may be too large for
 * fp16 where the average is not. Sums and products of integers wrap, also that of an average. Host
 * buffers with a NULL stream: complete on return. `sendbuff` may be `recvbuff` as NCCL defines
 * in-place for the collective, otherwise they must not overlap. Buffers are aligned to their
 * element. A count of 0 is allowed. After an error the contents of `recvbuff` are undefined. */

GW_API gwResult_t gwAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                              gwDataType_t datatype, gwRedOp_t op, gwComm_t comm,
                              gwStream_t stream);
GW_API gwResult_t gwReduce(const void* sendbuff, void* recvbuff, size_t count,
                           gwDataType_t datatype, gwRedOp_t op, int root, gwComm_t comm,
                           gwStream_t stream);
GW_API gwResult_t gwBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                              gwDataType_t datatype, int root, gwComm_t comm, gwStream_t stream);
/* recvbuff: nranks * sendcount elements; in place: sendbuff == recvbuff + rank * sendcount. */
GW_API gwResult_t gwAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                              gwDataType_t datatype, gwComm_t comm, gwStream_t stream);
/* sendbuff: nranks * recvcount elements; in place: recvbuff == sendbuff + rank * recvcount. */
GW_API gwResult_t gwReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                  gwDataType_t datatype, gwRedOp_t op, gwComm_t comm,
                                  gwStream_t stream);
/* Both: nranks * count elements; never in place. */
GW_API gwResult_t gwAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                             gwDataType_t datatype, gwComm_t comm, gwStream_t stream);
GW_API gwResult_t gwBarrier(gwComm_t comm, gwStream_t stream);

/* ---- point to point, and groups ----
 * Parameters as NCCL's. */

/* Sends `count` elements to `peer`, which receives them by gwRecv. The sends from one rank to
 * another meet the receives there in order, whatever else the two do: steps, collectives and other
 * ranks have no part in it. Type and count must be equal, else both get gwMismatch with both
 * values. Host buffers with a NULL stream: complete on return, and a send returns only when its
 * receive was called. To itself a rank sends in a group only. gwTimeout: the peer did not call for
 * op_timeout_ms. Its call, when it comes, is gwRemoteError (a send that crosses the word of it may
 * be complete). gwPeerLost: it has left, or was lost. After all but the loss of a rank the
 * communicator is usable, and the next call meets the next. */
GW_API gwResult_t gwSend(const void* sendbuff, size_t count, gwDataType_t datatype, int peer,
                         gwComm_t comm, gwStream_t stream);
GW_API gwResult_t gwRecv(void* recvbuff, size_t count, gwDataType_t datatype, int peer,
                         gwComm_t comm, gwStream_t stream);

/* Sends, receives and exact collectives of this thread between gwGroupStart and gwGroupEnd, on any
 * communicators, are issued together by gwGroupEnd, which returns when all are complete. None waits
 * for another of the group, but that collectives of one communicator keep their order. Buffers
 * belong to the calls until then. Groups nest: the outermost gwGroupEnd counts. A wrong argument is
 * returned by the call itself and by gwGroupEnd, which then issues nothing; gwGetLastError(NULL)
 * too has what gwGroupEnd returned. While calls of a communicator wait in a group it cannot be
 * split, finalized or destroyed. Any thread. gwGroupEnd without gwGroupStart: gwInvalidUsage. */
GW_API gwResult_t gwGroupStart(void);
GW_API gwResult_t gwGroupEnd(void);

/* ---- registered tensors ---- */

typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  const char* spec; /* "qsgd(bits=4)", "auto", ...; NULL or empty: the setting `compress` */
} gwTensorConfig_t;
#define GW_TENSOR_CONFIG_INITIALIZER \
  { sizeof(gwTensorConfig_t), GW_CONFIG_MAGIC, GW_VERSION_CODE, NULL }

/* Registers a gradient: its name is its identity and owns the residual. Local and cheap; all ranks
 * must register the same tensors before the end of the first step that uses them. `shape`: ndim
 * lengths, copied, at most 32; at most 2^35 elements. `datatype`: float16, bfloat16 or float32.
 * gwInvalidArgument: a name twice, or with a line break or one of = , ; in it; a negative or
 * overflowing shape, an unknown spec (the error suggests the nearest spelling), or one that cannot
 * take this tensor or so many ranks (the error tells what it takes). The handle is valid until
 * gwCommDestroy; after gwTensorDeregister every use of it is refused. */
GW_API gwResult_t gwTensorRegister(gwComm_t comm, const char* name, const int64_t* shape, int ndim,
                                   gwDataType_t datatype, const gwTensorConfig_t* config,
                                   gwTensor_t* tensor);
/* Not while an operation of the tensor is under way, nor in the step in which it was submitted
 * (gwInvalidUsage). The residual is lost. From then on the handle is good for nothing: its
 * functions return gwInvalidUsage, this one too. The name may be registered again and gets another
 * handle. All ranks register and deregister in the same order. If they do not, the next sum of a
 * tensor registered meanwhile may be gwMismatch on all ranks, if it is outside steps; later ones
 * work. */
GW_API gwResult_t gwTensorDeregister(gwTensor_t tensor);
/* Another codec from the next operation on; same on all ranks. The residual stays: an exact codec
 * or one without feedback sends it along once; what else the codec kept (bases, averages) is lost
 * where the spec is another. gwInvalidUsage inside a step in which the tensor was submitted.
 * gwInvalidArgument: as by gwTensorRegister; then the tensor keeps the codec that it has. */
GW_API gwResult_t gwTensorSetSpec(gwTensor_t tensor, const char* spec);

/* All-reduces a registered gradient as its spec says. `send` stays unmodified and `recv` undefined
 * until the request completes; they may be the same. `op`: gwSum or gwAvg. Ranks submit in the same
 * order. A tensor takes part in at most one operation a step: a second submit is gwInvalidUsage,
 * without effect (accumulate gradients locally, or register a second name). Outside steps too: then
 * it commits on completion, no vote takes it back, and `auto` is bf16. `none` sums float16 in
 * float16, and in float32 where something kept back goes along, or other tensors of its group in
 * whose array it travels. `request` must be waited for and freed. */
GW_API gwResult_t gwAllReduceTensor(gwTensor_t tensor, const void* send, void* recv, gwRedOp_t op,
                                    gwStream_t stream, gwRequest_t* request);
/* The same for `count` tensors as one group with one request. Those that are reduced in the same
 * way travel as one array. */
GW_API gwResult_t gwAllReduceTensors(int count, const gwTensor_t* tensors, const void* const* send,
                                     void* const* recv, gwRedOp_t op, gwStream_t stream,
                                     gwRequest_t* request);

/* Reduce-scatters a registered gradient: `send` has all of it, `recv` takes the shard of this rank,
 * the rank-th of as many equal ones as there are ranks (gwInvalidArgument where they do not divide
 * the elements). `recv` may be that shard of `send`, and must not overlap it otherwise. Half of an
 * all-reduce's bytes: each element is encoded at most once, and an owner's own part never. What
 * encoding loses is kept back, by specs with feedback, at the rank that encoded it. Sums are of
 * float32 whatever the gradients' type, also with `none`. Specs: `none` and those that are reduced
 * as two_shot (bf16, fp16, qsgd, efsign, topk(agreement=owners)); gwInvalidUsage for others and
 * `auto`. Otherwise as gwAllReduceTensor. */
GW_API gwResult_t gwReduceScatterTensor(gwTensor_t tensor, const void* send, void* recv,
                                        gwRedOp_t op, gwStream_t stream, gwRequest_t* request);

/* The tensor's part in the open step is of no use to its caller, as where nobody had a gradient: if
 * the step commits, what its codec keeps (residual, basis, average) stays as it was before. When
 * the request is complete and before gwStepEnd, on all ranks alike. gwInvalidUsage: otherwise.
 * transaction=off: residuals and averages have no former state and are as the step left them.
 * Local and cheap. */
GW_API gwResult_t gwTensorDiscardStep(gwTensor_t tensor);

/* Waits until the request is complete and returns how it ended. timeout_ns < 0: as long as the
 * communicator lives. gwTimeout: still under way, the request stays valid; or complete, revoked
 * after op_timeout_ms: gwRequestTest tells. Does the engine's work while it waits. */
GW_API gwResult_t gwRequestWait(gwRequest_t request, int64_t timeout_ns);
/* done = 1: complete, and the result is how it ended; 0: gwSuccess. Never blocks. */
GW_API gwResult_t gwRequestTest(gwRequest_t request, int* done);
/* Frees a complete request. NULL: no effect. Also after gwCommDestroy, which completes what is
 * left. gwInvalidUsage: it is not complete, and stays valid. As any thread may call this, the error
 * is that of the calling thread: gwGetLastError(NULL) tells it, that of the communicator stays. */
GW_API gwResult_t gwRequestFree(gwRequest_t request);

/* ---- training steps ---- */

typedef enum GW_ENUM {
  gwStepCommitted = 0,
  gwStepSkipped = 1, /* a non-finite value under the policy `nonfinite=skip`: do not update */
  gwStepAborted =
      2 /* run the step again with the same gradients: same bits as if it had never failed, but for
         * tensors of spec `auto`, whose plan goes on with every attempt. Where gwStepEnd returns
         * gwNonFinite the same gradients would fail again */
} gwStepOutcome_t;

/* Opens a step. `step` is the caller's number, equal on all ranks. Random rounding is a function of
 * it: take a new number for every step, and the same one again only to repeat a step. */
GW_API gwResult_t gwStepBegin(gwComm_t comm, uint64_t step);
/* Gradients of this step are multiplied by `scale` (loss scaling). Between gwStepBegin and the
 * first submit; finite, > 0. Residuals are kept in units of the power of two not above it, so that
 * a change of scale by powers of two is exact; after any other what was kept back counts for up to
 * twice as much or half. */
GW_API gwResult_t gwStepSetLossScale(gwComm_t comm, float scale);
/* Ends the step: all ranks agree on one outcome; residuals are committed, or stay as they were.
 *   outcome not NULL: waits for it. Update the weights only after gwStepCommitted. gwSuccess also
 *     for skipped and aborted steps: then gwGetLastError has the reason.
 *   outcome NULL: waits for the outcome of the step before only. This step cannot be run again: if
 *     it is aborted, the communicator ends on all ranks (gwRevoked).
 *   gwNonFinite: *outcome is gwStepAborted, under `nonfinite=error`.
 *   gwInvalidUsage: no step is open, or `outcome` is NULL under `nonfinite=skip`. */
GW_API gwResult_t gwStepEnd(gwComm_t comm, gwStepOutcome_t* outcome);
/* Instead of gwStepEnd, for a caller that cannot use the step (its backward failed): it ends as
 * aborted on all ranks, whatever has been submitted here, and what others submit fails. They may
 * run it again as after any abort, together with this rank, but for those that ended it with
 * `outcome` NULL: that ends the communicator. Returns when this rank has the outcome; its requests
 * are then complete. `why` is told on all ranks; NULL: nothing. gwInvalidUsage: no step. */
GW_API gwResult_t gwStepAbort(gwComm_t comm, const char* why);

/* ---- state and statistics ---- */

/* Writes this rank's state to `buffer`: residuals, counters, and at rank 0 what the controller of
 * `auto` has learnt. *bytes: in the size of `buffer`, out the size needed; with buffer NULL only
 * that. gwInvalidArgument: too small, nothing written. Between steps. */
GW_API gwResult_t gwStateSave(gwComm_t comm, void* buffer, size_t* bytes);
/* Reads what gwStateSave wrote at the same rank of a communicator of the same size, after the same
 * tensors were registered. Residuals are of use under any spec; where a codec kept more (bases,
 * quotas, momenta) the tensor must have the spec it had. Damaged bytes are gwDataCorrupt, other
 * tensors, shapes and such specs gwMismatch that names the tensor and both, all without effect.
 * What the controller had learnt it uses for the same tensors, specs and settings; otherwise it
 * warms up, and the ledger says why. gwSystemError: no memory, without effect. The state of another
 * rank or size is gwMismatch where it holds anything of that rank's own; docs/wire_format.md tells
 * how the rest is taken out, which any rank may load. */
GW_API gwResult_t gwStateLoad(gwComm_t comm, const void* buffer, size_t bytes);

/* JSON text, zero-terminated. *bytes as above. Stats: counters of the communicator, and how the
 * operation was done that was submitted last of the complete ones. Ledger: how long steps take,
 * from each gwStepBegin to the next, and how long of that the caller waits (medians of the last
 * 1,024 in ms, null before the first has ended), and what happened to each tensor: codec, bytes,
 * times, error, and why. */
GW_API gwResult_t gwCommGetStats(gwComm_t comm, char* buffer, size_t* bytes);
GW_API gwResult_t gwCommGetLedger(gwComm_t comm, char* buffer, size_t* bytes);

#undef GW_ENUM
#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* GRADWIRE_GRADWIRE_H_ */
