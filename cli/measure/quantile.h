#ifndef GRADWIRE_CLI_MEASURE_QUANTILE_H_
#define GRADWIRE_CLI_MEASURE_QUANTILE_H_

#include <span>

namespace gradwire {

// Of ascending values, at least one; `q` in [0, 1]. Between two values on the straight line.
double Quantile(std::span<const double> sorted, double q);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_QUANTILE_H_
