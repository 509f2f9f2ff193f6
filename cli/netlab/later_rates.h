// Rates that the links of a test network get while its ranks run.
#ifndef GRADWIRE_CLI_NETLAB_LATER_RATES_H_
#define GRADWIRE_CLI_NETLAB_LATER_RATES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace gradwire {

struct LaterRate {
  int64_t at_ns = 0;  // after the ranks have been started
  std::string text;   // as the user wrote it
  int64_t bits_per_s = 0;
};

// Of "SECONDS=RATE" each, in the order of their times. gwInvalidArgument for another text.
StatusOr<std::vector<LaterRate>> ParseLaterRates(std::span<const std::string> texts);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_NETLAB_LATER_RATES_H_
