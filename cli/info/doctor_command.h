// `gradwire doctor`: what is wrong with this machine or process, and what to do.
#ifndef GRADWIRE_CLI_INFO_DOCTOR_COMMAND_H_
#define GRADWIRE_CLI_INFO_DOCTOR_COMMAND_H_

#include <span>
#include <string>

namespace gradwire {

// Exit code 1 if anything cannot work; warnings alone are 0.
int DoctorCommand(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_INFO_DOCTOR_COMMAND_H_
