// The settings of a communicator, from all that may set them.
#ifndef GRADWIRE_RUNTIME_START_LOAD_SETTINGS_H_
#define GRADWIRE_RUNTIME_START_LOAD_SETTINGS_H_

#include <string>

#include "base/settings.h"
#include "base/status.h"
#include "transports/bootstrap/launcher.h"

namespace gradwire {

// This process's whole environment.
Environment ProcessEnvironment();

// `api` is gwConfig_t::settings: "name=value" pairs separated by ';' or line breaks, of which the
// last of a name counts; messages call it `api_origin`. Reads gradwire.toml and the environment,
// and configures the process's log. gwInvalidArgument: as of Settings::Load; a pair that is none, a
// file that cannot be read, a codec or a transport that there is not.
StatusOr<Settings> LoadSettings(const std::string& api, const Environment& environment,
                                const std::string& api_origin = "API");

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_START_LOAD_SETTINGS_H_
