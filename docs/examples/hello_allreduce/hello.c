/* The smallest gradwire program: every rank has a gradient, and all ranks get the mean.
 *
 *     gradwire run -n 2 -- hello
 *
 * Plain C99; it includes nothing of gradwire but its one header. */
#include <gradwire/gradwire.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ELEMS 100000

static gwComm_t comm;

/* Every call returns a code; gwGetLastError has the story in one line, the code included. */
static void check(gwResult_t result, const char* what) {
  if (result == gwSuccess) return;
  fprintf(stderr, "%s: %s\n", what, gwGetLastError(comm));
  exit(1);
}

/* Averages `gradient` over the ranks as `spec` says and returns the error relative to the largest
 * value of the mean that is known here. */
static double average(const char* spec, uint64_t step, float* gradient, int ranks) {
  const int64_t shape[] = {ELEMS};
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  gwTensor_t tensor;
  gwRequest_t request;
  gwStepOutcome_t outcome;
  double worst = 0;
  int i;

  /* README.md shows this part. [step] */
  config.spec = spec; /* "none", "bf16", "qsgd(bits=8)", ... */
  check(gwTensorRegister(comm, "gradient", shape, 1, gwFloat32, &config, &tensor), "register");

  check(gwStepBegin(comm, step), "begin");
  check(gwAllReduceTensor(tensor, gradient, gradient, gwAvg, NULL, &request), "submit");
  /* ... a training program computes the next gradient while this one travels ... */
  check(gwRequestWait(request, -1), "wait");
  check(gwRequestFree(request), "free");
  check(gwStepEnd(comm, &outcome), "end"); /* update the weights after gwStepCommitted */
  /* [/step] */
  if (outcome != gwStepCommitted) check(gwAborted, "the step was not committed");
  check(gwTensorDeregister(tensor), "deregister");

  for (i = 0; i < ELEMS; ++i) {
    const double mean = sin(i) * (ranks + 1) / 2.0;
    const double error = fabs(gradient[i] - mean) / ((ranks + 1) / 2.0);
    if (error > worst) worst = error;
  }
  return worst;
}

int main(void) {
  const char* const specs[] = {"none", "bf16", "qsgd(bits=8)"};
  float* gradient = malloc(ELEMS * sizeof(float));
  int rank, ranks, i, s;

  if (gradient == NULL) return 1;
  check(gwCommInitEnv(&comm, NULL), "gwCommInitEnv");
  check(gwCommUserRank(comm, &rank), "gwCommUserRank");
  check(gwCommCount(comm, &ranks), "gwCommCount");

  for (s = 0; s < 3; ++s) {
    double error;
    for (i = 0; i < ELEMS; ++i) gradient[i] = (float)(sin(i) * (rank + 1));
    error = average(specs[s], (uint64_t)s, gradient, ranks);
    printf("rank %d of %d: %-12s worst error %.6f\n", rank, ranks, specs[s], error);
    if (error > 0.05) return 1;
  }

  check(gwCommFinalize(comm), "gwCommFinalize");
  check(gwCommDestroy(comm), "gwCommDestroy");
  free(gradient);
  return 0;
}
