// Line plots as SVG, and the style sheet that it takes its colours from: --line-0, --line-1 ... for
// series, the classes grid, axis, tick, label, note, target and series for the rest.
#ifndef GRADWIRE_CLI_REPORT_LINE_PLOT_H_
#define GRADWIRE_CLI_REPORT_LINE_PLOT_H_

#include <map>
#include <string>

#include "cli/report/report_page.h"

namespace gradwire {

struct SeriesLook {
  unsigned colour = 0;  // of the palette
  bool dashed = false;
};

using SeriesLooks = std::map<std::string, SeriesLook>;  // by name

// The style sheet has so many colours.
inline constexpr unsigned kPaletteSize = 8;

// Of all series in a section, which share them between its plots: in the order of the names' first
// appearance, dashed once the colours are used up.
SeriesLooks LooksOf(const ReportSection& section);

// Of a plot's view box.
inline constexpr double kPlotWidth = 620, kPlotHeight = 400;

// For light and dark screens. Also has --page, --card, --ink, --muted and --edge.
std::string PlotStyle();

// The whole <svg> element. `looks` has every series of the plot.
std::string LinePlotSvg(const LinePlot& plot, const SeriesLooks& looks);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_LINE_PLOT_H_
