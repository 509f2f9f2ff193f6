// What a report shows, apart from how it looks.
#ifndef GRADWIRE_CLI_REPORT_REPORT_PAGE_H_
#define GRADWIRE_CLI_REPORT_REPORT_PAGE_H_

#include <optional>
#include <string>
#include <vector>

namespace gradwire {

struct PlotPoint {
  double x = 0, y = 0;
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
  // Of the palette, from 0; without it each name has a colour of its own in its section.
  std::optional<unsigned> colour = std::nullopt;
  bool dashed = false;
};

// Where an end is missing, the axis is as long as the data ask for.
struct PlotAxis {
  std::string label;
  bool logarithmic = false;
  std::optional<double> low = std::nullopt, high = std::nullopt;
};

// A horizontal line.
struct PlotTarget {
  double value = 0;
  std::string text;
};

struct LinePlot {
  std::string heading;
  PlotAxis x, y;
  std::vector<PlotSeries> series;
  std::optional<PlotTarget> target = std::nullopt;
};

// Rows may be shorter than the columns. A row that begins with a series' name has its colour.
struct ReportTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

struct ReportSection {
  std::string heading;
  std::vector<LinePlot> plots;
  std::vector<ReportTable> tables;
  std::vector<std::string> notes;
};

struct ReportPage {
  std::string title, subtitle;
  std::vector<ReportSection> sections;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_REPORT_PAGE_H_
