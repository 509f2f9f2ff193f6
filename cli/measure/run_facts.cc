#include "cli/measure/run_facts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <string_view>

#include "base/json_value.h"
#include "cli/launch/processors.h"
#include "cli/measure/machine_state.h"
#include "gradwire/gradwire.h"
#include "runtime/start/usable_cores.h"

namespace gradwire {
namespace {

using Json = JsonValue;

std::string Version() { return fmt::format("{}.{}.{}", GW_MAJOR, GW_MINOR, GW_PATCH); }

std::vector<std::string> OurEnvironment() {
  std::vector<std::string> ours;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool secret = text.starts_with("GRADWIRE_SECRET=");
    if (text.starts_with("GRADWIRE_") && !secret) ours.emplace_back(text);
  }
  return ours;
}

}  // namespace

RunFacts CurrentFacts() {
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  const char* netlab = std::getenv("GRADWIRE_NETLAB");
  return {.start_unix_s = std::time(nullptr),
          .host = host,
          .cores = static_cast<int>(UsableCores().size()),
          .host_cores = static_cast<int>(AllowedCores().size()),
          .netlab = netlab != nullptr ? netlab : "",
          .environment = OurEnvironment()};
}

std::vector<std::string> HeaderLines(const RunFacts& facts, const std::string& command_line) {
  std::vector<std::string> lines = {
      fmt::format("# gradwire {} on {}, {} ranks{}, rank 0 on {} of {} processors", Version(),
                  facts.host, facts.ranks,
                  facts.netlab.empty() ? "" : ", test network at " + facts.netlab, facts.cores,
                  facts.host_cores),
      fmt::format("# {}", command_line)};
  if (facts.probed) {
    lines.push_back("# machine state before : " + MachineStateText(facts.ping_pong_before_us));
  }
  return lines;
}

std::vector<std::string> FooterLines(const RunFacts& facts) {
  if (!facts.probed) return {};
  const auto &before = facts.ping_pong_before_us, &after = facts.ping_pong_after_us;
  std::vector<std::string> lines = {"# machine state after  : " + MachineStateText(after)};
  if (before && after && IsSlow(*before) != IsSlow(*after))
    lines.emplace_back("# the machine changed its state meanwhile: measure again");
  return lines;
}

Json FactsJson(const RunFacts& facts, const std::string& command_line) {
  return {{"schema_version", 1},
          {"version", Version()},
          {"start_time", facts.start_unix_s},
          {"end_time", facts.end_unix_s},
          {"args", command_line},
          {"env", facts.environment},
          {"hostname", facts.host},
          {"ranks", facts.ranks},
          {"one_host", facts.one_host},
          {"processors", {{"rank_0", facts.cores}, {"host", facts.host_cores}}},
          {"netlab", facts.netlab.empty() ? Json(nullptr) : Json(facts.netlab)},
          {"ping_pong_us", {facts.ping_pong_before_us, facts.ping_pong_after_us}}};
}

}  // namespace gradwire
