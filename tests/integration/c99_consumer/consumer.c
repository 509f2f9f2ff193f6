/* A program in strict C99 that knows the public header and the shared library, nothing else. One
 * line per check; the exit code is the number of checks that failed. */
#include <gradwire/gradwire.h>
#include <stdio.h>
#include <string.h>

static int failures;

static void expect(int ok, const char* what) {
  printf("%s: %s\n", ok ? "ok" : "FAILED", what);
  if (!ok) ++failures;
}

/* Interposition as with PMPI: the library's gw* are weak, and pgw* does the work. */
extern gwResult_t pgwCommCount(gwComm_t comm, int* count);
static int interposed;
gwResult_t gwCommCount(gwComm_t comm, int* count) {
  ++interposed;
  return pgwCommCount(comm, count);
}

static void use_values(void) {
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  gwTensorConfig_t tensor_config = GW_TENSOR_CONFIG_INITIALIZER;
  expect(config.size == sizeof config && config.magic == GW_CONFIG_MAGIC, "config");
  expect(config.settings == NULL && tensor_config.spec == NULL, "defaults");
  expect(sizeof(gwUniqueId) == GW_UNIQUE_ID_BYTES, "id");
  expect(gwBfloat16 == GW_NUM_TYPES - 1 && gwAvg == GW_NUM_OPS - 1, "enums");
}

static void use_collectives(gwComm_t comm, int rank, int ranks) {
  double send[2] = {1.5, 2.0}, recv[2] = {0, 0};
  int count = 0;
  expect(gwAllReduce(send, recv, 2, gwFloat64, gwSum, comm, NULL) == gwSuccess, "all-reduce");
  expect(recv[0] == 1.5 * ranks && recv[1] == 2.0 * ranks, "sum");
  send[0] = rank;
  expect(gwBroadcast(send, send, 1, gwFloat64, 0, comm, NULL) == gwSuccess, "broadcast");
  expect(send[0] == 0, "root's value");
  expect(gwBarrier(comm, NULL) == gwSuccess, "barrier");
  expect(gwCommCount(comm, &count) == gwSuccess && count == ranks, "count");
  expect(interposed == 1, "interposed");
}

static void use_groups(gwComm_t comm, int rank, int ranks) {
  gwComm_t all = NULL, none = comm;
  int turned = -1, sent = 10 + rank, got = 0, to = (rank + 1) % ranks;
  expect(gwCommSplit(comm, 0, -rank, &all, NULL) == gwSuccess, "split");
  expect(gwCommUserRank(all, &turned) == gwSuccess && turned == ranks - 1 - rank, "new rank");
  expect(gwCommSplit(comm, GW_SPLIT_NOCOLOR, 0, &none, NULL) == gwSuccess && !none, "no color");
  expect(gwGroupStart() == gwSuccess, "group");
  expect(gwRecv(&got, 1, gwInt32, (rank + ranks - 1) % ranks, comm, NULL) == gwSuccess, "receive");
  expect(gwSend(&sent, 1, gwInt32, to, comm, NULL) == gwSuccess, "send");
  expect(gwGroupEnd() == gwSuccess && got == 10 + (rank + ranks - 1) % ranks, "ring");
  expect(gwCommDestroy(all) == gwSuccess, "destroy the split");
}

static void use_step(gwComm_t comm) {
  const int64_t shape[] = {3, 5};
  float grad[15], mean[15];
  gwTensor_t tensor = NULL;
  gwRequest_t request = NULL;
  gwStepOutcome_t outcome = gwStepAborted;
  size_t bytes = 0;
  int i;
  for (i = 0; i < 15; ++i) grad[i] = 0.25f;
  expect(gwTensorRegister(comm, "w", shape, 2, gwFloat32, NULL, &tensor) == gwSuccess, "register");
  expect(gwStepBegin(comm, 0) == gwSuccess, "begin");
  expect(gwAllReduceTensor(tensor, grad, mean, gwAvg, NULL, &request) == gwSuccess, "submit");
  expect(gwRequestWait(request, -1) == gwSuccess, "wait");
  expect(gwRequestFree(request) == gwSuccess, "free");
  expect(gwStepEnd(comm, &outcome) == gwSuccess && outcome == gwStepCommitted, "end");
  expect(memcmp(grad, mean, sizeof grad) == 0, "mean");
  expect(gwStateSave(comm, NULL, &bytes) == gwSuccess && bytes > 0, "state");
}

/* From any thread. */
static void take_line(void* user, gwLogLevel_t level, const char* line) {
  if (level == gwLogInfo && strstr(line, "GRADWIRE INFO") != NULL) *(volatile int*)user = 1;
}

int main(void) {
  static volatile int told = 0;
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  gwComm_t comm = NULL;
  int version = 0, rank = -1, ranks = 0;
  use_values();
  expect(gwGetVersion(&version) == gwSuccess && version == GW_VERSION_CODE, "version");
  expect(gwAllReduce(NULL, NULL, 0, gwInt8, gwSum, NULL, NULL) == gwInvalidArgument, "null");
  expect(strstr(gwGetLastError(NULL), "communicator") != NULL, "its text");
  config.settings = "debug=info";
  expect(gwSetLogCallback(take_line, (void*)&told) == gwSuccess, "log");
  if (gwCommInitEnv(&comm, &config) != gwSuccess) {
    fprintf(stderr, "%s\n", gwGetLastError(NULL));
    return 100;
  }
  expect(told, "a line of the start");
  expect(gwSetLogCallback(NULL, NULL) == gwSuccess, "no callback");
  expect(pgwCommCount(comm, &ranks) == gwSuccess, "ranks");
  expect(gwCommUserRank(comm, &rank) == gwSuccess, "rank");
  use_collectives(comm, rank, ranks);
  use_groups(comm, rank, ranks);
  use_step(comm);
  expect(gwCommDestroy(comm) == gwSuccess, "destroy");
  printf("rank %d of %d: %d failures\n", rank, ranks, failures);
  return failures;
}
