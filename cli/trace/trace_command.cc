#include "cli/trace/trace_command.h"

#include "cli/arguments.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "cli/trace/chrome_trace.h"
#include "cli/trace/recorded_run.h"

namespace gradwire {
namespace {

constexpr char kDescription[] =
    "Draws a run of `gradwire train --timeline`, or what a program wrote with\n"
    "GRADWIRE_RECORD_TIMELINE=FILE, as a Chrome trace: for each rank when it computed and waited,\n"
    "encoded and decoded, and when messages were under way, with the controller's plans. Open the\n"
    "file in chrome://tracing or ui.perfetto.dev.\n\n"
    "example: gradwire run -n 4 --netlab 1gbit -- gradwire train --model resnet50 --scale 0.1 "
    "--compute-ms 60 -x auto --steps 100 --timeline --json run.json\n"
    "         gradwire trace run.json -o timeline.json";

}  // namespace

int TraceCommand(std::span<const std::string> args) {
  CommandLine line(kDescription, "gradwire trace");
  std::string run_path, out_path = "-";
  line.Add("RUN", &run_path, "the JSON file of the run, or FILE of GRADWIRE_RECORD_TIMELINE=FILE")
      .Required();
  line.Add("-o,--output", &out_path, "the trace's file; default - is standard output");
  if (const auto code = line.Parse(args)) return *code;
  const StatusOr<RecordedRun> run = ReadRecordedRun(run_path);
  if (!run.ok()) return ReportError("trace", run.status());
  Status status = CheckReplacesNone(out_path, run->files);
  if (status.ok()) status = WriteTextTo(out_path, ChromeTrace(*run));
  return status.ok() ? kExitOk : ReportError("trace", status);
}

}  // namespace gradwire
