// What the launcher's environment says about this rank. Pure: the environment is an argument.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_LAUNCHER_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_LAUNCHER_H_

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "transports/bootstrap/address.h"

namespace gradwire {

using Environment = std::map<std::string, std::string>;

struct LaunchInfo {
  std::string launcher;  // "gradwire", "torchrun", "open mpi", "mpich" or "slurm"
  int rank = 0;
  int world_size = 1;
  int local_rank = -1;  // on its host; -1: not told
  int local_size = -1;
  HostPort root;  // of rank 0; empty for a world of one
  uint64_t job = 0;
  std::string secret;
  bool insecure = false;
  std::string board;  // as LaunchBoard::Open takes it; empty: this launcher has none
};

// The first launcher of {gradwire's own, torchrun, Open MPI, MPICH, Slurm} whose rank and world
// size are both set.
//   gradwire: GRADWIRE_RANK, _WORLD_SIZE, _ROOT=host:port [, _LOCAL_RANK, _LOCAL_WORLD_SIZE]
//   torchrun: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT [, LOCAL_RANK, LOCAL_WORLD_SIZE]
//   Open MPI: OMPI_COMM_WORLD_RANK, _SIZE [, _LOCAL_RANK, _LOCAL_SIZE]
//   MPICH:    PMI_RANK, PMI_SIZE [, MPI_LOCALRANKID, MPI_LOCALNRANKS]
//   Slurm:    SLURM_PROCID, SLURM_NTASKS [, SLURM_LOCALID],
//             SLURM_STEP_NODELIST or SLURM_JOB_NODELIST
// Where rank 0 is: GRADWIRE_ROOT, which wins over every launcher; else torchrun's master (loopback
// if all ranks are on one host), Slurm's first host, or loopback where the launcher says that all
// ranks are on one host. The port: of GRADWIRE_ROOT, GRADWIRE_PORT, MASTER_PORT + 1 (its own
// belongs to torch's store), or in 20000..29999 by a hash of the launcher's job variables.
// GRADWIRE_SECRET and GRADWIRE_INSECURE (on or off) hold for all; GRADWIRE_JOB tells apart jobs
// that share everything else. Errors (gwInvalidUsage) name the variables: no launcher, one half of
// a pair, values that contradict each other or are no numbers, no way to tell where rank 0 is.
StatusOr<LaunchInfo> DetectLauncher(const Environment& environment);

// Whether any of them has left its mark: without one a process is a world of its own. Half a mark
// is one too, of which DetectLauncher tells what is missing.
bool HasLauncher(const Environment& environment);

// Of the first of these launchers that tells one; -1: none does. For errors, which may be about the
// environment itself.
int LaunchedRank(const Environment& environment);

// The first host of a Slurm node list: "n[003-005,9]-ib,m1" gives "n003-ib". gwInvalidArgument if
// it is none.
StatusOr<std::string> FirstSlurmHost(const std::string& node_list);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_LAUNCHER_H_
