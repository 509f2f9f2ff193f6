#include <array>

#include "cli/advise/advise_command.h"
#include "cli/codecs/codecs_command.h"
#include "cli/diagnose/diagnose_command.h"
#include "cli/info/doctor_command.h"
#include "cli/info/info_command.h"
#include "cli/perf/perf_command.h"
#include "cli/plan/plan_command.h"
#include "cli/report/report_command.h"
#include "cli/run.h"
#include "cli/schedule/schedule_command.h"
#include "cli/subcommand.h"
#include "cli/trace/trace_command.h"
#include "cli/train/train_command.h"

namespace gradwire {
namespace {

constexpr std::array kSubcommands = {
    Subcommand{"run", "start N local ranks of a program", RunCommand},
    Subcommand{"perf", "measure collectives, as nccl-tests do, and codecs", PerfCommand},
    Subcommand{"train", "run training steps with the shapes of a model, to compare codecs",
               TrainCommand},
    Subcommand{"advise", "whether compression pays on this link, tensor by tensor", AdviseCommand},
    Subcommand{"schedule", "print what an algorithm sends, as data", ScheduleCommand},
    Subcommand{"codecs", "every codec: bits, how it is summed, what it is safe with",
               CodecsCommand},
    Subcommand{"report", "results of perf and train as a page with plots", ReportCommand},
    Subcommand{"trace", "a run of train as a Chrome trace", TraceCommand},
    Subcommand{"plan", "the controller's decisions, made again from its log", PlanCommand},
    Subcommand{"info", "versions, transports, codecs, algorithms, settings", InfoCommand},
    Subcommand{"doctor", "what is wrong with this machine or process", DoctorCommand},
    Subcommand{"diagnose", "what went wrong, from the recorder files of a job", DiagnoseCommand},
};

}  // namespace

std::span<const Subcommand> Subcommands() { return kSubcommands; }

}  // namespace gradwire
