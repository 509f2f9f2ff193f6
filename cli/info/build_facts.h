// What this build and this machine offer, for `gradwire info` and `gradwire doctor`.
#ifndef GRADWIRE_CLI_INFO_BUILD_FACTS_H_
#define GRADWIRE_CLI_INFO_BUILD_FACTS_H_

#include <string>
#include <vector>

#include "base/settings.h"
#include "base/status.h"

namespace gradwire {

// "13.0" of a CUDA version, 1000 * major + 10 * minor.
std::string CudaVersionText(int version);

struct TransportFact {
  std::string name, doc;
  Status usable;  // something came through; or why nothing does, on this machine, now
};

// Tries each transport of the build once, between two ranks in this process. `settings` are a
// job's: its interface and its fragments.
std::vector<TransportFact> ProbeTransports(const Settings& settings);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_INFO_BUILD_FACTS_H_
