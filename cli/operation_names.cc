#include "cli/operation_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <vector>

#include "base/nearest_name.h"

namespace gradwire {
namespace {

std::string LettersOf(std::string_view text) {
  std::string letters;
  for (const unsigned char c : text) {
    if (c != '-' && c != '_') letters += static_cast<char>(std::tolower(c));
  }
  return letters;
}

std::string ThereAre(const std::vector<std::string_view>& names) {
  return fmt::format("There are: {}", fmt::join(names, ", "));
}

// What the name stands for, or the error that it stands for nothing among the first `count` values.
template <typename Value>
StatusOr<Value> FoundOrNearest(std::optional<Value> found, const char* kind, std::string_view text,
                               int count) {
  if (found) return *found;
  std::vector<std::string_view> names;
  for (int i = 0; i < count; ++i) names.push_back(Name(static_cast<Value>(i)));
  return Status(gwInvalidArgument, fmt::format("no {} '{}'", kind, text),
                DidYouMean(text, names, ThereAre(names)));
}

template <typename Value>
StatusOr<std::vector<Value>> OneOrAll(StatusOr<Value> (*parse)(std::string_view),
                                      std::string_view text, int count) {
  std::vector<Value> values;
  for (int i = 0; text == "all" && i < count; ++i) values.push_back(static_cast<Value>(i));
  if (!values.empty()) return values;
  const StatusOr<Value> value = parse(text);
  if (!value.ok()) return value.status();
  return std::vector{*value};
}

struct Alias {
  std::string_view text;
  DType dtype;
};
constexpr std::array kAliases = {
    Alias{"bf16", DType::kBfloat16},   Alias{"fp16", DType::kFloat16},
    Alias{"fp32", DType::kFloat32},    Alias{"fp64", DType::kFloat64},
    Alias{"float16", DType::kFloat16}, Alias{"float32", DType::kFloat32},
    Alias{"float64", DType::kFloat64}};

StatusOr<ReduceOp> ParseReduceOp(std::string_view text) {
  return FoundOrNearest(ReduceOpFromName(text), "reduction", text, kReduceOps);
}

}  // namespace

StatusOr<DType> ParseDType(std::string_view text) {
  const auto alias = std::ranges::find(kAliases, text, &Alias::text);
  if (alias != kAliases.end()) return alias->dtype;
  return FoundOrNearest(DTypeFromName(text), "element type", text, kDTypes);
}

StatusOr<std::vector<DType>> ParseDTypes(std::string_view text) {
  return OneOrAll(ParseDType, text, kDTypes);
}

StatusOr<std::vector<ReduceOp>> ParseReduceOps(std::string_view text) {
  return OneOrAll(ParseReduceOp, text, kReduceOps);
}

StatusOr<Collective> ParseCollective(std::string_view text) {
  std::vector<std::string_view> names;
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    names.push_back(Name(collective));
    if (LettersOf(names.back()) == LettersOf(text)) return collective;
  }
  return Status(gwInvalidArgument, fmt::format("no collective '{}'", text),
                DidYouMean(text, names, ThereAre(names)));
}

}  // namespace gradwire
