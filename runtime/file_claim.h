// Names of files that communicators of one process write.
#ifndef GRADWIRE_RUNTIME_FILE_CLAIM_H_
#define GRADWIRE_RUNTIME_FILE_CLAIM_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace gradwire {

// `path` for the first communicator of the process that asks, and for others of its job, which are
// ranks in threads; with "-JOB" behind it for each later job, so that none writes over another's.
// Processes know nothing of each other: where their first communicators are of different jobs, two
// of these can still have one name. Any thread.
std::string ClaimFile(std::string_view path, uint64_t job);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_FILE_CLAIM_H_
