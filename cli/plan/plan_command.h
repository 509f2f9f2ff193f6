// `gradwire plan`: the controller's decisions, from its log.
#ifndef GRADWIRE_CLI_PLAN_PLAN_COMMAND_H_
#define GRADWIRE_CLI_PLAN_PLAN_COMMAND_H_

#include <span>
#include <string>

namespace gradwire {

int PlanCommand(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PLAN_PLAN_COMMAND_H_
