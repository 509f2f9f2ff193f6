/* Times MPI_Allreduce of floats as `gradwire perf` times its own: the median over the iterations,
 * then the maximum over the ranks.
 *
 *     mpirun -n RANKS mpi_allreduce BYTES ITERATIONS WARM_UPS
 *
 * Prints microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4 || atoi(argv[2]) < 1) {
    fprintf(stderr, "usage: mpi_allreduce BYTES ITERATIONS WARM_UPS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int count = (int)(atol(argv[1]) / (long)sizeof(float));
  const int iterations = atoi(argv[2]), warm_ups = atoi(argv[3]);
  float* in = calloc((size_t)count, sizeof(float));
  float* out = calloc((size_t)count, sizeof(float));
  double* times = calloc((size_t)iterations, sizeof(double));
  for (int i = 0; i < count; ++i) in[i] = (float)i;
  for (int i = -warm_ups; i < iterations; ++i) {
    const double begin = MPI_Wtime();
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (i >= 0) times[i] = MPI_Wtime() - begin;
  }
  qsort(times, (size_t)iterations, sizeof(double), compare);
  const double median = (times[(iterations - 1) / 2] + times[iterations / 2]) / 2;
  double median_us = median * 1e6, slowest_us = 0;
  MPI_Reduce(&median_us, &slowest_us, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("%.3f\n", slowest_us);
  free(in);
  free(out);
  free(times);
  MPI_Finalize();
  return 0;
}
