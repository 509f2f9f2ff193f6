// Starts a search: with --seeds=FOLDER the target's seeds are written there first, for libFuzzer to
// take as its corpus. It ignores options with two dashes itself.

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace gradwire::fuzz;
  constexpr std::string_view kOption = "--seeds=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view arg = (*argv)[i];
    if (!arg.starts_with(kOption)) continue;
    const std::string folder(arg.substr(kOption.size()));
    const std::vector<Input> seeds = Seeds();
    for (size_t s = 0; s < seeds.size(); ++s) {
      std::ofstream file(folder + "/seed" + std::to_string(s), std::ios::binary);
      file.write(reinterpret_cast<const char*>(seeds[s].data()),
                 static_cast<std::streamsize>(seeds[s].size()));
      FUZZ_CHECK(file.flush().good());
    }
  }
  return 0;
}
