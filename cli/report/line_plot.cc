#include "cli/report/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/report/markup.h"
#include "cli/report/plot_scale.h"

namespace gradwire {
namespace {

constexpr std::string_view kStyle = R"(:root{color-scheme:light dark;
--page:#fbfbfa;--card:#ffffff;--ink:#1d1d1b;--muted:#63625d;--grid:#e7e6e2;--edge:#dddcd7;
--line-0:#77756e;--line-1:#2a78d6;--line-2:#0f9b6c;--line-3:#d97706;--line-4:#b83280;
--line-5:#6d4fc4;--line-6:#0e8a9b;--line-7:#a3541a}
@media(prefers-color-scheme:dark){:root{
--page:#161615;--card:#1f1f1d;--ink:#f1f0ec;--muted:#a9a79f;--grid:#32312e;--edge:#3a3936;
--line-0:#a5a39b;--line-1:#5b9df0;--line-2:#2fbf8f;--line-3:#f0a03c;--line-4:#e76bb0;
--line-5:#a58bf0;--line-6:#40bccd;--line-7:#d98a50}}
.grid{stroke:var(--grid)}.axis{stroke:var(--muted);fill:none}
.tick{fill:var(--muted);font-size:12px;font-variant-numeric:tabular-nums}
.label{fill:var(--ink);font-size:13px}.note{fill:var(--ink);font-size:12px;
paint-order:stroke;stroke:var(--card);stroke-width:4px}
.target{stroke:var(--ink);stroke-dasharray:5 4;stroke-width:1.2}
.series path{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}
.series circle{fill:var(--c);stroke:var(--card);stroke-width:1}
.dashed path{stroke-dasharray:6 4}
)";

// Within the view box, which the page stretches.
constexpr double kLeft = 56, kRight = kPlotWidth - 18, kTop = 16, kBottom = kPlotHeight - 52;
// Dots and lines at the edge are seen whole.
constexpr double kOverlap = 6;
// A line of more points is no polygon that one would read dot by dot.
constexpr size_t kMostDots = 80;

std::vector<double> ValuesOf(const LinePlot& plot, double PlotPoint::*which) {
  std::vector<double> values;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) values.push_back(point.*which);
  }
  if (which == &PlotPoint::y && plot.target) values.push_back(plot.target->value);
  return values;
}

std::string Text(double x, double y, std::string_view text, std::string_view css,
                 std::string_view anchor) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" class="{}" text-anchor="{}">{}</text>)", x, y,
                     css, anchor, EscapeMarkup(text));
}

std::string LabelOf(const PlotAxis& axis) {
  return axis.label + (axis.logarithmic ? " (logarithmic)" : "");
}

class Drawing {
 public:
  explicit Drawing(const LinePlot& plot)
      : plot_(plot),
        x_(plot.x, ValuesOf(plot, &PlotPoint::x)),
        y_(plot.y, ValuesOf(plot, &PlotPoint::y)) {}

  std::string Svg(const SeriesLooks& looks) const {
    // An inner <svg> cuts off what lies outside the axes.
    std::string svg = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)"
                                  "\n",
                                  kPlotWidth, kPlotHeight, EscapeMarkup(plot_.heading));
    svg += Grid();
    const double left = kLeft - kOverlap, top = kTop - kOverlap;
    const double width = kRight - kLeft + 2 * kOverlap, height = kBottom - kTop + 2 * kOverlap;
    svg += fmt::format(R"(<svg x="{0}" y="{1}" width="{2}" height="{3}" viewBox="{0} {1} {2} {3}">)"
                       "\n",
                       left, top, width, height);
    for (const PlotSeries& series : plot_.series) svg += Line(series, looks.at(series.name));
    svg += "</svg>\n";
    if (plot_.target) svg += TargetLine();
    return svg + "</svg>\n";
  }

 private:
  double X(double value) const { return kLeft + x_.Position(value) * (kRight - kLeft); }
  double Y(double value) const { return kBottom - y_.Position(value) * (kBottom - kTop); }

  std::string Grid() const {
    std::string svg;
    for (const double value : y_.Ticks()) {
      svg += fmt::format(R"(<path class="grid" d="M{} {:.1f}H{}"/>)", kLeft, Y(value), kRight);
      svg += Text(kLeft - 8, Y(value) + 4, TickText(value), "tick", "end") + "\n";
    }
    for (const double value : x_.Ticks()) {
      svg += fmt::format(R"(<path class="axis" d="M{:.1f} {}v5"/>)", X(value), kBottom);
      svg += Text(X(value), kBottom + 19, TickText(value), "tick", "middle") + "\n";
    }
    svg += fmt::format(R"(<path class="axis" d="M{} {}H{}"/>)", kLeft, kBottom, kRight);
    svg += Text((kLeft + kRight) / 2, kPlotHeight - 10, LabelOf(plot_.x), "label", "middle");
    const double middle = (kTop + kBottom) / 2;
    return svg + fmt::format(R"svg(<g transform="rotate(-90 14 {})">{}</g>)svg", middle,
                             Text(14, middle, LabelOf(plot_.y), "label", "middle"));
  }

  std::string TargetLine() const {
    const double y = Y(plot_.target->value);
    // Lines that rise to the right leave room on the left of a logarithmic plot, and on the right
    // of a linear one.
    const bool left = plot_.x.logarithmic;
    return fmt::format(R"(<path class="target" d="M{} {:.1f}H{}"/>)", kLeft, y, kRight) +
           Text(left ? kLeft + 4 : kRight, y - 6, plot_.target->text, "note",
                left ? "start" : "end");
  }

  std::string Line(const PlotSeries& series, const SeriesLook& look) const {
    std::string path, dots;
    for (const PlotPoint& point : series.points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", X(point.x), Y(point.y));
      if (series.points.size() > kMostDots) continue;
      dots += fmt::format(
          R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.5"><title>{}: {:.4g} at {:.4g}</title></circle>)",
          X(point.x), Y(point.y), EscapeMarkup(series.name), point.y, point.x);
    }
    return fmt::format(
        R"svg(<g class="series{}" style="--c:var(--line-{})"><path d="{}"/>{}</g>)svg"
        "\n",
        look.dashed ? " dashed" : "", look.colour, path, dots);
  }

  const LinePlot& plot_;
  const PlotScale x_, y_;
};

}  // namespace

SeriesLooks LooksOf(const ReportSection& section) {
  SeriesLooks looks;
  unsigned next = 0;
  for (const LinePlot& plot : section.plots) {
    for (const PlotSeries& series : plot.series) {
      if (looks.contains(series.name)) continue;
      const unsigned own = series.colour ? *series.colour : next++;
      looks[series.name] = {.colour = own % kPaletteSize,
                            .dashed = series.dashed || own / kPaletteSize % 2 == 1};
    }
  }
  return looks;
}

std::string PlotStyle() { return std::string(kStyle); }

std::string LinePlotSvg(const LinePlot& plot, const SeriesLooks& looks) {
  return Drawing(plot).Svg(looks);
}

}  // namespace gradwire
