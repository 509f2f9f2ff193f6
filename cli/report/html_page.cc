#include "cli/report/html_page.h"

#include <fmt/format.h>

#include <set>
#include <string_view>

#include "cli/report/line_plot.h"
#include "cli/report/markup.h"

namespace gradwire {
namespace {

constexpr std::string_view kStyle = R"(
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1360px;margin:0 auto;padding:28px 20px 40px}
h1{font-size:23px;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:17px;margin:28px 0 12px}
h3{font-size:15px;margin:0 0 6px;font-weight:600}
p{margin:0;color:var(--muted)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:16px;
margin:14px 0 16px}
.plots .card:only-child{max-width:680px}
.card{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:14px 16px}
.card+.card{margin-top:16px}
.plots .card+.card{margin-top:0}
.card>svg{display:block;width:100%;height:auto}
.legend{display:flex;flex-wrap:wrap;gap:6px 20px;margin:16px 0 0;padding:0;list-style:none}
.legend li,td:first-child{white-space:nowrap}
.key{display:inline-block;width:22px;border-top:3px solid var(--c);vertical-align:middle;
margin-right:8px}
.key.dashed{border-top-style:dashed}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th{font-weight:600;color:var(--muted);font-size:13px}
th,td{padding:6px 10px;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}
th:first-child,td:first-child{text-align:left}
tr:last-child td{border-bottom:0}
.notes{margin-top:14px;font-size:13px;color:var(--muted)}
.notes p+p{margin-top:2px}
)";

std::string Element(std::string_view tag, std::string_view text) {
  return fmt::format("<{0}>{1}</{0}>", tag, EscapeMarkup(text));
}

std::string Key(const SeriesLook& look) {
  return fmt::format(R"html(<span class="key{}" style="--c:var(--line-{})"></span>)html",
                     look.dashed ? " dashed" : "", look.colour);
}

std::string Legend(const ReportSection& section, const SeriesLooks& looks) {
  std::string items;
  std::set<std::string_view> listed;
  for (const LinePlot& plot : section.plots) {
    for (const PlotSeries& series : plot.series) {
      if (!listed.insert(series.name).second) continue;
      items += "<li>" + Key(looks.at(series.name)) + EscapeMarkup(series.name) + "</li>";
    }
  }
  return items.empty() ? "" : R"(<ul class="legend">)" + items + "</ul>\n";
}

std::string Plots(const ReportSection& section, const SeriesLooks& looks) {
  std::string html;
  for (const LinePlot& plot : section.plots) {
    html += R"(<div class="card">)" + Element("h3", plot.heading) + "\n" +
            LinePlotSvg(plot, looks) + "</div>\n";
  }
  return html.empty() ? "" : "<div class=\"plots\">\n" + html + "</div>\n";
}

std::string Row(const std::vector<std::string>& cells, const SeriesLooks& looks) {
  std::string html;
  for (const std::string& cell : cells) {
    const auto look = html.empty() ? looks.find(cell) : looks.end();
    html += "<td>" + (look != looks.end() ? Key(look->second) : "") + EscapeMarkup(cell) + "</td>";
  }
  return "<tr>" + html + "</tr>\n";
}

std::string Table(const ReportTable& table, const SeriesLooks& looks) {
  std::string html = "<div class=\"card scroll\"><table><tr>";
  for (const std::string& column : table.columns) html += Element("th", column);
  html += "</tr>\n";
  for (const std::vector<std::string>& row : table.rows) html += Row(row, looks);
  return html + "</table></div>\n";
}

std::string Section(const ReportSection& section) {
  const SeriesLooks looks = LooksOf(section);
  std::string html = "<section>\n";
  if (!section.heading.empty()) html += Element("h2", section.heading) + "\n";
  html += Legend(section, looks) + Plots(section, looks);
  for (const ReportTable& table : section.tables) html += Table(table, looks);
  html += R"(<div class="notes">)";
  for (const std::string& note : section.notes) html += Element("p", note);
  return html + "</div>\n</section>\n";
}

}  // namespace

std::string HtmlPage(const ReportPage& page) {
  std::string html = R"(<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width,initial-scale=1"/>
)";
  html += Element("title", page.title) + "\n<style>\n" + PlotStyle() + std::string(kStyle) +
          "</style>\n<main>\n";
  html += Element("h1", page.title) + "\n";
  if (!page.subtitle.empty()) html += Element("p", page.subtitle) + "\n";
  for (const ReportSection& section : page.sections) html += Section(section);
  return html + "</main>\n</html>\n";
}

}  // namespace gradwire
