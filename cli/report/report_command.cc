#include "cli/report/report_command.h"

#include <fmt/format.h>

#include <vector>

#include "cli/arguments.h"
#include "cli/report/html_page.h"
#include "cli/report/report_builder.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"

namespace gradwire {
namespace {

constexpr char kDescription[] =
    "Makes one HTML page with plots and tables of files of results: of `gradwire perf --json`,\n"
    "lines of all files in the same plots, and of `gradwire train --json`. The page needs nothing\n"
    "else and can be sent to others. Programs may describe pages of their own: "
    "docs/commands.md.\n\n"
    "example: gradwire run -n 4 --netlab 1gbit -- gradwire perf -b 4K -e 64M -f 4 -x none "
    "--json none.json\n"
    "         gradwire run -n 4 --netlab 1gbit -- gradwire perf -b 4K -e 64M -f 4 "
    "-x 'qsgd(bits=4)' --json qsgd.json\n"
    "         gradwire report none.json qsgd.json -o report.html";

std::string Summary(const ReportPage& page, const std::string& path) {
  size_t plots = 0, tables = 0;
  for (const ReportSection& section : page.sections) {
    plots += section.plots.size();
    tables += section.tables.size();
  }
  return fmt::format("{}: plots: {}, tables: {}", path, plots, tables);
}

}  // namespace

int ReportCommand(std::span<const std::string> args) {
  CommandLine line(kDescription, "gradwire report");
  std::vector<std::string> paths;
  std::string out_path = "report.html", title;
  line.Add("FILE", &paths, "JSON files of results").Required();
  line.Add("-o,--output", &out_path, "the page's file; - is standard output");
  line.Add("--title", &title, "the page's title");
  if (const auto code = line.Parse(args)) return *code;
  const Status apart = CheckReplacesNone(out_path, paths);
  if (!apart.ok()) return ReportError("report", apart);
  StatusOr<ReportPage> page = BuildReport(paths);
  if (!page.ok()) return ReportError("report", page.status());
  if (!title.empty()) page->title = title;
  const Status written = WriteTextTo(out_path, HtmlPage(*page));
  if (!written.ok()) return ReportError("report", written);
  if (out_path != "-") PrintLine(Summary(*page, out_path));
  return kExitOk;
}

}  // namespace gradwire
