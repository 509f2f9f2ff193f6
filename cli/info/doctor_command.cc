#include "cli/info/doctor_command.h"

#include <algorithm>

#include "cli/arguments.h"
#include "cli/info/doctor_checks.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"

namespace gradwire {

int DoctorCommand(std::span<const std::string> args) {
  CommandLine line(
      "Says what is wrong with this machine or this process's environment, and what to do.\n\n"
      "example: gradwire doctor --ranks 4",
      "gradwire doctor");
  int ranks = 2;
  std::string json_path;
  line.Add("-n,--ranks", &ranks, "ranks to be run on this machine; default 2").InRange(1, 1 << 16);
  line.AddJson("--json", &json_path);
  if (const auto code = line.Parse(args)) return *code;
  const std::vector<HealthFinding> findings = Examine(ranks);
  const Status written = json_path.empty() ? WriteTextTo("-", FindingsText(findings))
                                           : WriteTextTo(json_path, FindingsJson(findings));
  if (!written.ok()) return ReportError("doctor", written);
  const bool failed = std::any_of(findings.begin(), findings.end(),
                                  [](auto& f) { return f.health == Health::kFailure; });
  return failed ? kExitFailed : kExitOk;
}

}  // namespace gradwire
