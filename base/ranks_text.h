// Ranks as errors name them.
#ifndef GRADWIRE_BASE_RANKS_TEXT_H_
#define GRADWIRE_BASE_RANKS_TEXT_H_

#include <string>
#include <vector>

namespace gradwire {

// "rank 3", "ranks 0, 2 to 5 and 9"; ascending input, not empty.
std::string RanksText(const std::vector<int>& ranks);

}  // namespace gradwire

#endif  // GRADWIRE_BASE_RANKS_TEXT_H_
