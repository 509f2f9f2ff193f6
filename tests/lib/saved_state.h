// Saved states taken apart, by docs/wire_format.md and not by the library's own reader.
#ifndef GRADWIRE_TESTS_LIB_SAVED_STATE_H_
#define GRADWIRE_TESTS_LIB_SAVED_STATE_H_

#include <string>

namespace gradwire {

// Makes the checksums of any bytes right, as far as the lengths before them lead.
void SealState(std::string* state);

// A whole state without residuals and local state: what all ranks have alike.
std::string WithoutOwnParts(const std::string& state);

// A whole state as this rank saves it once it has loaded it: with its own origin, and without the
// specs of codecs of which nothing is kept. All else is as it was.
std::string AsSavedBy(int rank, int world_size, const std::string& state);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_LIB_SAVED_STATE_H_
