// From an axis' values to places along it.
#ifndef GRADWIRE_CLI_REPORT_PLOT_SCALE_H_
#define GRADWIRE_CLI_REPORT_PLOT_SCALE_H_

#include <string>
#include <vector>

#include "cli/report/report_page.h"

namespace gradwire {

class PlotScale {
 public:
  // `values` fit in where the axis has no end of its own. A linear axis begins at zero where they
  // are all positive; a logarithmic one knows positive values only.
  PlotScale(const PlotAxis& axis, const std::vector<double>& values);

  // 0 at the low end, 1 at the high one; values outside lie outside.
  double Position(double value) const;
  // Round values between the ends, a dozen at most, ascending.
  std::vector<double> Ticks() const;

  double low() const { return low_; }
  double high() const { return high_; }

 private:
  std::vector<double> LinearTicks() const;
  std::vector<double> LogarithmicTicks() const;

  const bool logarithmic_;
  double low_, high_;
};

// "250", "16k", "1.5M": at most a few characters.
std::string TickText(double value);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_PLOT_SCALE_H_
