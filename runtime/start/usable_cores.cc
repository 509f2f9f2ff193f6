#include "runtime/start/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <string_view>

namespace gradwire {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";
constexpr int kCoresOfDigit = 4;
constexpr size_t kMostSets = 64;  // of 1024 cores each

}  // namespace

std::vector<int> UsableCores() {
  std::vector<cpu_set_t> sets(1);
  // The kernel refuses a set that is smaller than its own.
  while (sched_getaffinity(0, sets.size() * sizeof(cpu_set_t), sets.data()) != 0) {
    if (errno != EINVAL || sets.size() >= kMostSets) return {};
    sets.resize(2 * sets.size());
  }
  std::vector<int> cores;
  const size_t bytes = sets.size() * sizeof(cpu_set_t);
  for (int core = 0; core < static_cast<int>(8 * bytes); ++core) {
    if (CPU_ISSET_S(core, bytes, sets.data())) cores.push_back(core);
  }
  return cores;
}

std::string EncodeCores(std::span<const int> cores) {
  std::vector<uint8_t> digits;
  for (const int core : cores) {
    const auto at = static_cast<size_t>(core / kCoresOfDigit);
    digits.resize(std::max(digits.size(), at + 1));
    digits[at] |= static_cast<uint8_t>(1 << core % kCoresOfDigit);
  }
  std::string text;
  for (const uint8_t digit : digits) text += kDigits[digit];
  return text;
}

int CountCores(std::span<const std::string> texts) {
  std::vector<uint8_t> all;
  for (const std::string& text : texts) {
    all.resize(std::max(all.size(), text.size()));
    for (size_t i = 0; i < text.size(); ++i) {
      const size_t digit = kDigits.find(text[i]);
      if (digit != kDigits.npos) all[i] |= static_cast<uint8_t>(digit);
    }
  }
  int count = 0;
  for (const uint8_t digit : all) count += std::popcount(digit);
  return count;
}

}  // namespace gradwire
