// Where and when a measurement ran: what its header and its JSON begin with.
#ifndef GRADWIRE_CLI_MEASURE_RUN_FACTS_H_
#define GRADWIRE_CLI_MEASURE_RUN_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_value.h"

namespace gradwire {

struct RunFacts {
  int64_t start_unix_s = 0, end_unix_s = 0;
  std::string host;
  int cores = 0, host_cores = 0;  // that this process may use; that it could be given
  int ranks = 0;
  std::optional<bool> one_host;          // all ranks share one; absent: nobody has asked
  std::string netlab;                    // rate, empty outside `gradwire run --netlab`
  std::vector<std::string> environment;  // GRADWIRE_ variables, without secrets
  std::optional<double> ping_pong_before_us, ping_pong_after_us;
  bool probed = false;   // the two above were measured, if there are two cores
  bool is_rank = false;  // this process, of several; else all ranks are its threads
};

// Time, host and environment of this process.
RunFacts CurrentFacts();

// "# gradwire 0.1.0 on host, 4 ranks, test network at 1gbit, rank 0 on 2 of 8 processors", then the
// command line, then the machine's state where it was probed.
std::vector<std::string> HeaderLines(const RunFacts& facts, const std::string& command_line);

// The machine's state afterwards where it was probed, and whether that is another one.
std::vector<std::string> FooterLines(const RunFacts& facts);

// All of the facts as members of a JSON object.
JsonValue FactsJson(const RunFacts& facts, const std::string& command_line);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_RUN_FACTS_H_
