#include "cli/report/svg_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string_view>

#include "cli/report/line_plot.h"
#include "cli/report/markup.h"

namespace gradwire {
namespace {

constexpr std::string_view kStyle = R"(
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.card{fill:var(--card)}.heading{fill:var(--ink);font-size:17px;font-weight:600}
.title{fill:var(--ink);font-size:15px;font-weight:600}
.key{stroke:var(--c);stroke-width:3}.key.dashed{stroke-dasharray:6 4}
)";

constexpr double kMargin = 20;
constexpr int kPlotsInRow = 2;
constexpr double kWidth = kPlotsInRow * kPlotWidth + (kPlotsInRow + 1) * kMargin;
constexpr double kLineHeight = 26;
// Of the legend's text. A picture cannot ask how wide a text is.
constexpr double kLetterWidth = 7.6;
constexpr double kKeyWidth = 22, kKeyGap = 8, kItemGap = 20;

// Puts one thing below the other.
class Picture {
 public:
  void Add(const ReportSection& section) {
    if (section.plots.empty()) return;
    if (!section.heading.empty()) Line(kMargin, "heading", section.heading);
    const SeriesLooks looks = LooksOf(section);
    Legend(section, looks);
    for (size_t i = 0; i < section.plots.size(); i += kPlotsInRow) {
      const size_t count = std::min<size_t>(section.plots.size() - i, kPlotsInRow);
      Row({&section.plots[i], count}, looks);
    }
  }

  std::string Svg(std::string_view title) const {
    const double height = y_ + kMargin;
    return fmt::format(
        R"svg(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">
<style>
{3}{4}</style>
<rect class="card" width="{0}" height="{1}" rx="10"/>
{5}</svg>
)svg",
        kWidth, height, EscapeMarkup(title), PlotStyle(), kStyle, body_);
  }

 private:
  void Text(double x, std::string_view css, std::string_view text) {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y_, css,
                         EscapeMarkup(text));
  }

  void Line(double x, std::string_view css, std::string_view text) {
    y_ += kLineHeight;
    Text(x, css, text);
  }

  void Legend(const ReportSection& section, const SeriesLooks& looks) {
    double x = kMargin;
    y_ += kLineHeight;
    std::set<std::string_view> listed;
    for (const LinePlot& plot : section.plots) {
      for (const PlotSeries& series : plot.series) {
        if (!listed.insert(series.name).second) continue;
        const double width = kKeyWidth + kKeyGap + kLetterWidth * series.name.size();
        if (x > kMargin && x + width > kWidth - kMargin) {
          x = kMargin;
          y_ += kLineHeight;
        }
        const SeriesLook& look = looks.at(series.name);
        body_ += fmt::format(
            R"svg(<path class="key{}" style="--c:var(--line-{})" d="M{:.1f} {:.1f}h{}"/>)svg",
            look.dashed ? " dashed" : "", look.colour, x, y_ - 4, kKeyWidth);
        Text(x + kKeyWidth + kKeyGap, "label", series.name);
        x += width + kItemGap;
      }
    }
  }

  void Row(std::span<const LinePlot> plots, const SeriesLooks& looks) {
    y_ += kLineHeight + kMargin / 2;
    double x = kMargin;
    for (const LinePlot& plot : plots) {
      Text(x, "title", plot.heading);
      body_ += fmt::format("<svg x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\">\n{}</svg>\n", x,
                           y_ + kMargin / 2, kPlotWidth, kPlotHeight, LinePlotSvg(plot, looks));
      x += kPlotWidth + kMargin;
    }
    y_ += kPlotHeight + kMargin / 2;
  }

  double y_ = kMargin / 2;
  std::string body_;
};

}  // namespace

std::string SvgPicture(const ReportPage& page) {
  Picture picture;
  for (const ReportSection& section : page.sections) picture.Add(section);
  return picture.Svg(page.title);
}

}  // namespace gradwire
