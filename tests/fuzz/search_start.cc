// Starts a search: with --seeds=FOLDER the target's seeds are written there first, for libFuzzer to
// take as its corpus, and with --kept=FOLDER the inputs that are kept there as text. It ignores
// options with two dashes itself.

#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz_target.h"

namespace gradwire::fuzz {
namespace {

// What stands behind `name` in one of the arguments; empty: in none.
std::string OptionOf(const std::vector<std::string_view>& args, std::string_view name) {
  for (const std::string_view arg : args) {
    if (arg.starts_with(name)) return std::string(arg.substr(name.size()));
  }
  return "";
}

void Write(const Input& input, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(input.data()),
             static_cast<std::streamsize>(input.size()));
  FUZZ_CHECK(file.flush().good());
}

}  // namespace
}  // namespace gradwire::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace gradwire::fuzz;
  const std::vector<std::string_view> args(*argv, *argv + *argc);
  const std::string to = OptionOf(args, "--seeds="), from = OptionOf(args, "--kept=");
  if (to.empty()) return 0;
  std::vector<Input> inputs = Seeds();
  if (!from.empty()) {
    for (KeptInput& kept : ReadCorpus(from)) inputs.push_back(std::move(kept.input));
  }
  for (size_t i = 0; i < inputs.size(); ++i) Write(inputs[i], to + "/seed" + std::to_string(i));
  return 0;
}
