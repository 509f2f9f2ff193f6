// Ranks as threads of one process, seeing nothing but the C API.
#ifndef GRADWIRE_TESTS_LIB_CAPI_RANKS_H_
#define GRADWIRE_TESTS_LIB_CAPI_RANKS_H_

#include <functional>
#include <string>
#include <vector>

#include "gradwire/gradwire.h"

namespace gradwire {

// Runs `body` once per rank, each on its own thread with its own communicator, and destroys the
// communicators. `settings` as in gwConfig_t, with "transport=loopback" in front: what stands later
// wins. Failures to start or to leave are failures of the test. A fatal assertion in `body` ends
// that rank only, whose communicator is then aborted so that the others do not wait for it.
void RunRanks(int world_size, const std::string& settings,
              const std::function<void(int rank, gwComm_t comm)>& body);

// The same where each rank has its own settings, and starting may fail: `body` gets the result of
// gwCommInitRankConfig, and null where it is not gwSuccess.
void RunRanksWith(const std::vector<std::string>& settings,
                  const std::function<void(int rank, gwResult_t started, gwComm_t comm)>& body);

// An all-reduce of a few integers, compared with what must come out. True: `comm` is usable.
bool AllReduceWorks(int rank, int world_size, gwComm_t comm);

// What gwStateSave writes; a failure of the test if it fails.
std::string SavedState(gwComm_t comm);
// What gwCommGetLedger and gwCommGetStats tell, likewise.
std::string LedgerText(gwComm_t comm);
std::string StatsText(gwComm_t comm);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_LIB_CAPI_RANKS_H_
