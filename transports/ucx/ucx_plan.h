// What to ask UCX for: which of its transports, segments and fragments. A pure function of our
// options, of what the user told UCX, and of the machine's interfaces.
#ifndef GRADWIRE_TRANSPORTS_UCX_UCX_PLAN_H_
#define GRADWIRE_TRANSPORTS_UCX_UCX_PLAN_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "transports/transport.h"

namespace gradwire {

// What the user told UCX itself, in the environment (UCX_*) or in ucx.conf; "all" is its default.
struct UcxUserSettings {
  std::string tls = "all";
  std::string net_devices = "all";
};

// From the text of ucp_config_print: lines of UCX_NAME=value.
UcxUserSettings ParseUcxSettings(std::string_view printed);

enum class UcxFabric : uint8_t {
  kShared = 1,  // shared memory of one host and nothing else
  kTcp = 2,     // TCP and nothing else
  kOther = 3,   // a mixture, or a fabric that only the user knows
};

struct UcxSetting {
  std::string name, value;
  std::string old_name;  // where versions differ: both are tried, and one must be known
};

struct UcxPlan {
  UcxFabric fabric = UcxFabric::kShared;
  std::string tls;  // UCX_TLS as it takes effect
  int32_t fragment_bytes = 0;
  int32_t fragments_in_flight = 0;
  bool makes_files = false;          // UCX may, for shared memory, while a worker starts
  bool needs_files = false;          // nothing else was asked for
  std::vector<UcxSetting> settings;  // for ucp_config_modify, in order
};

// `tls` and `net_devices` win where the user set them. gwInvalidArgument: fragment_bytes.
// gwTransportUnavailable: options.interface is none of `interfaces`, or what the user set cannot
// reach other hosts. `interfaces`: see UsableInterfaces.
StatusOr<UcxPlan> PlanUcx(const TransportOptions& options, const UcxUserSettings& user,
                          std::span<const std::string> interfaces);

// Names of this network namespace's interfaces that are up and have an address; loopback last.
std::vector<std::string> UsableInterfaces();

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_UCX_UCX_PLAN_H_
