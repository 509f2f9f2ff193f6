#include "runtime/engine/tensor_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "runtime/engine/operation.h"

namespace gradwire {
namespace {

// Lines are those of an OpText. One without a name tells how many tensors are left out; no tensor
// has an empty name.
constexpr int64_t kLastLineBytes = 32;

struct Listed {
  std::map<std::string, std::string> tensors;
  bool whole = true;

  // Nothing where the list ends before `name`.
  std::optional<std::string> Describe(const std::string& name) const {
    if (const auto it = tensors.find(name); it != tensors.end())
      return fmt::format("tensor {} {}", name, it->second);
    if (!whole && (tensors.empty() || tensors.rbegin()->first < name)) return std::nullopt;
    return fmt::format("no tensor {}", name);
  }
};

Listed Parse(const std::string& text) {
  Listed listed;
  for (auto& [name, what] : DecodeOpText(text)) {
    if (name.empty()) {
      listed.whole = false;
    } else {
      listed.tensors.emplace(name, std::move(what));
    }
  }
  return listed;
}

}  // namespace

std::string EncodeTensorList(const TensorList& list, int64_t max_bytes) {
  std::string whole = EncodeOpText(list);
  if (whole.empty()) return "\n";
  if (static_cast<int64_t>(whole.size()) <= max_bytes) return whole;
  std::string out;
  size_t taken = 0;
  for (;; ++taken) {
    const std::string line = EncodeOpText({list[taken]});
    if (static_cast<int64_t>(out.size() + line.size()) + kLastLineBytes > max_bytes) break;
    out += line;
  }
  return out + EncodeOpText({{"", std::to_string(list.size() - taken)}});
}

TensorListDifference CompareTensorLists(const std::vector<std::string>& texts) {
  std::vector<Listed> lists;
  std::set<std::string> names;
  for (const std::string& text : texts) {
    lists.push_back(Parse(text));
    for (const auto& tensor : lists.back().tensors) names.insert(tensor.first);
  }
  TensorListDifference difference;
  for (const std::string& name : names) {
    std::vector<std::pair<int, std::string>> values;
    for (size_t rank = 0; rank < lists.size(); ++rank) {
      if (auto value = lists[rank].Describe(name))
        values.emplace_back(static_cast<int>(rank), std::move(*value));
    }
    const bool same = std::all_of(values.begin(), values.end(),
                                  [&](const auto& v) { return v.second == values[0].second; });
    if (same) continue;
    if (difference.names.empty()) difference.first = std::move(values);
    difference.names.push_back(name);
  }
  return difference;
}

}  // namespace gradwire
