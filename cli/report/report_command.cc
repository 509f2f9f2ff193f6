#include "cli/report/report_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/ascii.h"
#include "cli/arguments.h"
#include "cli/report/html_page.h"
#include "cli/report/report_builder.h"
#include "cli/report/svg_picture.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"

namespace gradwire {
namespace {

constexpr char kDescription[] =
    "Makes one HTML page with plots and tables of files of results: of `gradwire perf --json`,\n"
    "lines of all files in the same plots, and of `gradwire train --json`. The page needs nothing\n"
    "else and can be sent to others. Where the file's name ends in .svg it is a picture of the "
    "plots\n"
    "alone, for a README. Programs may describe pages of their own: "
    "docs/commands.md.\n\n"
    "example: gradwire run -n 4 --netlab 1gbit -- gradwire perf -b 4K -e 64M -f 4 -x none "
    "--json none.json\n"
    "         gradwire run -n 4 --netlab 1gbit -- gradwire perf -b 4K -e 64M -f 4 "
    "-x 'qsgd(bits=4)' --json qsgd.json\n"
    "         gradwire report none.json qsgd.json -o report.html";

// ".svg" of "a/b.SVG".
std::string LowerExtension(const std::string& path) {
  std::string kind = std::filesystem::path(path).extension().string();
  for (char& c : kind) c = LowerAscii(c);
  return kind;
}

struct Content {
  size_t plots = 0, tables = 0;
};

Content ContentOf(const ReportPage& page) {
  Content content;
  for (const ReportSection& section : page.sections) {
    content.plots += section.plots.size();
    content.tables += section.tables.size();
  }
  return content;
}

}  // namespace

int ReportCommand(std::span<const std::string> args) {
  CommandLine line(kDescription, "gradwire report");
  std::vector<std::string> paths;
  std::string out_path = "report.html", title;
  line.Add("FILE", &paths, "JSON files of results").Required();
  line.Add("-o,--output", &out_path,
           "the page's file, or picture.svg; - is standard output;\ndefault report.html");
  line.Add("--title", &title,
           "the page's title; default: that of a page that is alone, else\n\"gradwire: measured\"");
  if (const auto code = line.Parse(args)) return *code;
  const Status apart = CheckReplacesNone(out_path, paths);
  if (!apart.ok()) return ReportError("report", apart);
  StatusOr<ReportPage> page = BuildReport(paths);
  if (!page.ok()) return ReportError("report", page.status());
  if (!title.empty()) page->title = title;
  const Content content = ContentOf(*page);
  const std::string kind = LowerExtension(out_path);
  const bool picture = kind == ".svg";
  if (!picture && !kind.empty() && kind != ".html" && kind != ".htm") {
    return ReportError("report",
                       Status(gwInvalidArgument, fmt::format("'{}' files are not made here", kind),
                              "A page is .html, a picture of its plots .svg"));
  }
  if (picture && content.plots == 0) {
    return ReportError("report", Status(gwInvalidArgument, "these results have no plots",
                                        "Write a page instead: -o report.html"));
  }
  const Status written = WriteTextTo(out_path, picture ? SvgPicture(*page) : HtmlPage(*page));
  if (!written.ok()) return ReportError("report", written);
  if (out_path != "-") {
    const size_t tables = picture ? 0 : content.tables;
    PrintLine(fmt::format("{}: plots: {}, tables: {}", out_path, content.plots, tables));
  }
  return kExitOk;
}

}  // namespace gradwire
