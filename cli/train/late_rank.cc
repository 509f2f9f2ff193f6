#include "cli/train/late_rank.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>
#include <vector>

namespace gradwire {
namespace {

// In a step; as much as a step may compute.
constexpr double kMaxLateMs = 1e6;
constexpr size_t kMinFields = 2, kMaxFields = 4;

std::vector<std::string_view> FieldsOf(std::string_view text) {
  std::vector<std::string_view> fields;
  for (size_t colon; (colon = text.find(':')) != text.npos; text.remove_prefix(colon + 1)) {
    fields.push_back(text.substr(0, colon));
  }
  fields.push_back(text);
  return fields;
}

template <typename Number>
bool Read(std::string_view text, Number* number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && rest == end;
}

}  // namespace

StatusOr<LateRank> ParseLateRank(std::string_view text) {
  LateRank late;
  const std::vector<std::string_view> fields = FieldsOf(text);
  const bool read = fields.size() >= kMinFields && fields.size() <= kMaxFields &&
                    Read(fields[0], &late.rank) && Read(fields[1], &late.ms) &&
                    (fields.size() < 3 || Read(fields[2], &late.first_step)) &&
                    (fields.size() < 4 || Read(fields[3], &late.steps));
  // Written so that NaN is refused.
  if (read && late.rank >= 0 && late.ms >= 0 && late.ms <= kMaxLateMs) return late;
  return Status(gwInvalidArgument, fmt::format("'{}' names no late rank", text),
                "Write RANK:MS[:FIRST_STEP[:STEPS]], as 1:40 or 1:40:100:2");
}

}  // namespace gradwire
