// What rank 0 of `gradwire advise` prints and writes.
#ifndef GRADWIRE_CLI_ADVISE_ADVISE_REPORT_H_
#define GRADWIRE_CLI_ADVISE_ADVISE_REPORT_H_

#include <string>

#include "cli/advise/advice.h"
#include "cli/advise/advise_options.h"
#include "cli/measure/run_facts.h"

namespace gradwire {

// The summary, headers, a row for each tensor, a row for each plan.
std::string AdviceText(const AdviseOptions& options, const RunFacts& facts, const Advice& advice);
std::string AdviceJson(const AdviseOptions& options, const RunFacts& facts, const Advice& advice);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_ADVISE_ADVISE_REPORT_H_
