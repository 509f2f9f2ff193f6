/* Groups of ranks and messages between two of them: odd and even ranks sum apart, then every rank
 * hands a value to the next.
 *
 *     gradwire run -n 4 -- groups
 *
 * Plain C99; it includes nothing of gradwire but its one header. */
#include <gradwire/gradwire.h>
#include <stdio.h>
#include <stdlib.h>

static gwComm_t comm;

static void check(gwResult_t result, gwComm_t at, const char* what) {
  if (result == gwSuccess) return;
  fprintf(stderr, "%s: %s\n", what, gwGetLastError(at));
  exit(1);
}

int main(void) {
  gwComm_t half = NULL;
  int rank, ranks, next, before;
  int64_t sum, got = -1;
  check(gwCommInitEnv(&comm, NULL), NULL, "start");
  check(gwCommUserRank(comm, &rank), comm, "rank");
  check(gwCommCount(comm, &ranks), comm, "ranks");

  /* docs/groups.md shows these parts. [split] */
  sum = rank;
  check(gwCommSplit(comm, rank % 2, rank, &half, NULL), comm, "split");
  check(gwAllReduce(&sum, &sum, 1, gwInt64, gwSum, half, NULL), half, "sum of the half");
  check(gwCommDestroy(half), NULL, "end of the half");
  /* [/split] */

  next = (rank + 1) % ranks;
  before = (rank + ranks - 1) % ranks;
  /* [ring] */
  check(gwGroupStart(), NULL, "group");
  check(gwSend(&sum, 1, gwInt64, next, comm, NULL), comm, "send");
  check(gwRecv(&got, 1, gwInt64, before, comm, NULL), comm, "receive");
  check(gwGroupEnd(), NULL, "end of the group"); /* both are complete */
  /* [/ring] */

  printf("rank %d: sum %d, got %d\n", rank, (int)sum, (int)got);
  check(gwCommDestroy(comm), NULL, "end");
  return 0;
}
