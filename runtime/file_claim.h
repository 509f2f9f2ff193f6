// Names of files that communicators of one process write.
#ifndef GRADWIRE_RUNTIME_FILE_CLAIM_H_
#define GRADWIRE_RUNTIME_FILE_CLAIM_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace gradwire {

// `path` with `suffix` behind it, for the first communicator of the process that asks, and with
// "-JOB" between them for each later one, so that none writes over another's. Any thread.
std::string ClaimFile(std::string_view path, uint64_t job, std::string_view suffix = {});

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_FILE_CLAIM_H_
