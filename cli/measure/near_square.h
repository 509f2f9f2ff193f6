#ifndef GRADWIRE_CLI_MEASURE_NEAR_SQUARE_H_
#define GRADWIRE_CLI_MEASURE_NEAR_SQUARE_H_

#include <array>
#include <cstdint>

namespace gradwire {

// The shape of a tensor of which only the number of elements is known: low-rank codecs want
// matrices. Rows and columns, as close to each other as their product allows; rows are no more.
std::array<int64_t, 2> NearSquare(int64_t elems);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_NEAR_SQUARE_H_
