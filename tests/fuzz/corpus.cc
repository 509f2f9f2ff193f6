#include "tests/fuzz/corpus.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "runtime/hex_text.h"

namespace gradwire::fuzz {
namespace {

// No target takes more; a larger count is a slip.
constexpr size_t kMostBytes = size_t{1} << 20;
constexpr std::string_view kBlanks = " \t\n";

std::string_view WithoutBlanks(std::string_view text) {
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (!text.starts_with('#')) return text;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
}

// Takes a text in quotes, or digits, off the front. Nothing: it is neither.
std::optional<std::string> TakeBytes(std::string_view* text) {
  const bool quoted = text->starts_with('"');
  const size_t length =
      quoted ? text->find('"', 1) : std::min(text->find_first_of("* \t\n#"), text->size());
  if (length == 0 || length == text->npos) return std::nullopt;
  const std::string_view piece = text->substr(0, length);
  text->remove_prefix(length + (quoted ? 1 : 0));
  return quoted ? std::string(piece.substr(1)) : FromHex(piece);
}

// Takes *COUNT off the front: 1 where there is none. Nothing: it is no number, or one too large.
std::optional<size_t> TakeCount(std::string_view* text) {
  if (!text->starts_with('*')) return 1;
  text->remove_prefix(1);
  size_t count = 0;
  const auto [rest, error] = std::from_chars(text->data(), text->data() + text->size(), count);
  if (error != std::errc() || count > kMostBytes) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(rest - text->data()));
  return count;
}

}  // namespace

std::optional<Input> ParseInput(std::string_view text) {
  Input input;
  for (text = WithoutBlanks(text); !text.empty();) {
    const std::optional<std::string> bytes = TakeBytes(&text);
    const std::optional<size_t> count = bytes ? TakeCount(&text) : std::nullopt;
    if (!count || input.size() + bytes->size() * *count > kMostBytes) return std::nullopt;
    for (size_t i = 0; i < *count; ++i) input.insert(input.end(), bytes->begin(), bytes->end());
    const std::string_view rest = WithoutBlanks(text);
    if (!rest.empty() && rest.size() == text.size()) return std::nullopt;
    text = rest;
  }
  return input;
}

std::vector<KeptInput> ReadCorpus(const std::string& folder) {
  std::vector<KeptInput> kept;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    std::optional<Input> input = ParseInput(text);
    if (!file || !input) Fail("it has the form of a kept input", entry.path().c_str(), 1);
    kept.push_back({.name = entry.path().filename(), .input = std::move(*input)});
  }
  std::sort(kept.begin(), kept.end(),
            [](const KeptInput& a, const KeptInput& b) { return a.name < b.name; });
  return kept;
}

}  // namespace gradwire::fuzz
