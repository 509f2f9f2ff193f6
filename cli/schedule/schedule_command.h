// `gradwire schedule ALGORITHM --ranks N`: what an algorithm does, as data.
#ifndef GRADWIRE_CLI_SCHEDULE_SCHEDULE_COMMAND_H_
#define GRADWIRE_CLI_SCHEDULE_SCHEDULE_COMMAND_H_

#include <span>
#include <string>

namespace gradwire {

int ScheduleCommand(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_SCHEDULE_SCHEDULE_COMMAND_H_
