// Replays a fuzz target without a fuzzer: its seeds, what is kept of its corpus, mutations of both,
// random bytes. Inputs are copied to blocks of exactly their size, so that a sanitizer sees a read
// one byte too far.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/lib/sanitized.h"

namespace gradwire::fuzz {
namespace {

// With a sanitizer a search follows, which feeds it thousands more.
constexpr int kRounds = kSanitized ? 1'000 : 20'000;
constexpr uint64_t kSeed = 1;

// Returns normally unless the target aborts; then the trace above the abort says where it was.
int Feed(const Input& input) {
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[input.size()]);
  if (!input.empty()) std::memcpy(exact.get(), input.data(), input.size());
  return LLVMFuzzerTestOneInput(exact.get(), input.size());
}

void FlipBit(Input* input, RandomStream* random) {
  if (!input->empty()) (*input)[random->Below(input->size())] ^= 1u << random->Below(8);
}

void SetByte(Input* input, RandomStream* random) {
  static constexpr uint8_t kTelling[] = {0x00, 0x01, 0x3F, 0x40, 0x7F, 0x80, 0xFF};
  if (!input->empty()) (*input)[random->Below(input->size())] = kTelling[random->Below(7)];
}

void SetWord(Input* input, RandomStream* random) {
  static constexpr uint32_t kTelling[] = {0, 1, 63, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFC0, ~0u};
  if (input->size() < 4) return;
  const size_t at = random->Below(input->size() - 3) / 4 * 4;
  std::memcpy(input->data() + at, &kTelling[random->Below(8)], 4);
}

void Truncate(Input* input, RandomStream* random) {
  input->resize(random->Below(input->size() + 1));
}

void Extend(Input* input, RandomStream* random) {
  for (uint64_t n = 1 + random->Below(64); n > 0; --n) {
    input->push_back(static_cast<uint8_t>((*random)()));
  }
}

void MoveTail(Input* input, RandomStream* random) {
  const auto middle = static_cast<ptrdiff_t>(random->Below(input->size() + 1));
  std::rotate(input->begin(), input->begin() + middle, input->end());
}

constexpr void (*kMutations[])(Input*, RandomStream*) = {FlipBit,  FlipBit, SetByte, SetWord,
                                                         Truncate, Extend,  MoveTail};

TEST(ReplayTest, SeedsPass) {
  ASSERT_FALSE(Seeds().empty());
  for (const Input& seed : Seeds()) EXPECT_EQ(Feed(seed), 0);
  EXPECT_EQ(Feed({}), 0);
}

// The build says where they are, and how many.
TEST(ReplayTest, KeptInputsPass) {
  const std::vector<KeptInput> all = ReadCorpus(GRADWIRE_FUZZ_CORPUS);
  EXPECT_EQ(all.size(), size_t{GRADWIRE_FUZZ_KEPT});
  for (const KeptInput& kept : all) {
    std::printf("%s\n", kept.name.c_str());
    std::fflush(stdout);  // before the target aborts
    EXPECT_EQ(Feed(kept.input), 0);
  }
}

TEST(ReplayTest, MutatedSeedsPass) {
  std::vector<Input> seeds = Seeds();
  for (KeptInput& kept : ReadCorpus(GRADWIRE_FUZZ_CORPUS)) seeds.push_back(std::move(kept.input));
  for (uint64_t round = 0; round < kRounds; ++round) {
    RandomStream random(kSeed, round);
    Input input = seeds[random.Below(seeds.size())];
    for (uint64_t n = 1 + random.Below(4); n > 0; --n) {
      kMutations[random.Below(std::size(kMutations))](&input, &random);
    }
    ASSERT_EQ(Feed(input), 0) << "seed " << kSeed << " round " << round;
  }
}

TEST(ReplayTest, RandomBytesPass) {
  for (uint64_t round = 0; round < kRounds; ++round) {
    RandomStream random(kSeed + 1, round);
    Input input(random.Below(512));
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(random());
    ASSERT_EQ(Feed(input), 0) << "seed " << kSeed + 1 << " round " << round;
  }
}

}  // namespace
}  // namespace gradwire::fuzz
