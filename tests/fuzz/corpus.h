// Inputs of fuzz targets that are kept as files, in tests/fuzz/corpus/TARGET: what a search has
// found, and what lies at an edge of a format where no seed is.
//
// A file is text, so that it can be reviewed: pairs of hexadecimal digits, and texts in double
// quotes, which hold no others; each with *COUNT behind it where it stands COUNT times. Blanks and
// ends of lines separate them, and # begins a comment:
//
//   03                      # with checksums
//   "GWS2" 0500*4 ff*8
#ifndef GRADWIRE_TESTS_FUZZ_CORPUS_H_
#define GRADWIRE_TESTS_FUZZ_CORPUS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace gradwire::fuzz {

// The bytes that the text of a file stands for; nothing where it has another form, or stands for
// more than 1 MiB.
std::optional<Input> ParseInput(std::string_view text);

struct KeptInput {
  std::string name;  // of the file
  Input input;
};

// Those of all files in `folder`, by name; none where there is no such folder. Fails at a file of
// another form.
std::vector<KeptInput> ReadCorpus(const std::string& folder);

}  // namespace gradwire::fuzz

#endif  // GRADWIRE_TESTS_FUZZ_CORPUS_H_
