#include "runtime/start/agreed_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "base/clock.h"
#include "collectives/schedule.h"
#include "collectives/schemes/part.h"
#include "collectives/schemes/slice_size.h"
#include "runtime/engine/slice_window.h"
#include "runtime/start/transport_choice.h"

namespace gradwire {
namespace {

std::string MillisecondsText(int64_t ns) {
  return fmt::format("{:g}", static_cast<double>(ns) / kNsPerMs);
}

// As far as rank 0 can have set it.
StatusOr<uint64_t> SettingIn(const OpText& text, SettingKey<SettingType::kInt> key) {
  const SettingRow& row = kSettings[key.index()];
  return NumberIn(text, row.name, row.min, row.max);
}

// Null: chosen by size.
StatusOr<const AlgorithmRow*> AlgorithmIn(const OpText& text) {
  const std::string name = FindInOpText(text, "algorithm");
  if (name == "auto") return static_cast<const AlgorithmRow*>(nullptr);
  StatusOr<const AlgorithmRow*> row = FindAlgorithm(Collective::kAllReduce, name);
  if (row.ok()) return row;
  return Status(gwMismatch, {.message = fmt::format("rank 0 chose '{}' for algorithm", name),
                             .hint = "Install the same version of gradwire everywhere",
                             .field = "algorithm",
                             .expected = "one that is known here (expected)",
                             .actual = fmt::format("'{}' (rank 0)", name)});
}

}  // namespace

OpText AgreedText(const Settings& settings) {
  return {{"compress", settings.Text("compress")},
          {"transport", settings.Text("transport")},
          {"algorithm", settings.Text("algorithm")},
          {"nonfinite", settings.Text("nonfinite")},
          {"transaction", settings.Bool("transaction") ? "on" : "off"},
          {"seed", std::to_string(settings.Int("seed"))},
          {"slice_elems", std::to_string(settings.Int("slice_elems"))},
          {"window", std::to_string(settings.Int("window"))},
          // Each rank is judged by the others' bound.
          {"heartbeat_ms", MillisecondsText(settings.DurationNs("heartbeat_ms"))},
          {"heartbeat_timeout_ms", MillisecondsText(settings.DurationNs("heartbeat_timeout_ms"))}};
}

StatusOr<uint64_t> NumberIn(const OpText& text, std::string_view field, uint64_t least,
                            uint64_t most) {
  const std::string digits = FindInOpText(text, field);
  uint64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, number);
  if (error == std::errc() && rest == end && number >= least && number <= most) return number;
  return Status(gwMismatch,
                {.message = fmt::format("rank 0 chose '{}' for {}", digits, field),
                 .hint = "Install the same version of gradwire everywhere",
                 .field = std::string(field),
                 .expected = fmt::format("a number from {} to {} (expected)", least, most),
                 .actual = fmt::format("'{}' (rank 0)", digits)});
}

StatusOr<AgreedSettings> ParseAgreed(const OpText& text) {
  const StatusOr<uint64_t> slice_elems = SettingIn(text, "slice_elems");
  if (!slice_elems.ok()) return slice_elems.status();
  const StatusOr<uint64_t> window = SettingIn(text, "window");
  if (!window.ok()) return window.status();
  const StatusOr<uint64_t> seed = SettingIn(text, "seed");
  if (!seed.ok()) return seed.status();
  const StatusOr<const AlgorithmRow*> all_reduce = AlgorithmIn(text);
  if (!all_reduce.ok()) return all_reduce.status();
  const std::string policy = FindInOpText(text, "nonfinite");
  const bool one_host = FindInOpText(text, "one_host") == "1";
  const auto cuts = static_cast<int64_t>(*slice_elems / kCutElems);
  return AgreedSettings{
      .one_host = one_host,
      .slice = *slice_elems == 0 ? DefaultSliceSize(one_host)
                                 : SliceSize{.elems = std::max(cuts, int64_t{1}) * kCutElems},
      // On one host there is no latency that more slices could hide.
      .window = *window == 0 && one_host ? SliceWindow::kLeast : static_cast<int>(*window),
      .seed = static_cast<uint32_t>(*seed),
      .spec = FindInOpText(text, "compress"),
      .all_reduce = *all_reduce,
      .transport = TransportName(FindInOpText(text, "end")),
      .transaction = FindInOpText(text, "transaction") == "on",
      .nonfinite = policy == "skip"    ? NonFinitePolicy::kSkip
                   : policy == "error" ? NonFinitePolicy::kError
                                       : NonFinitePolicy::kPropagate};
}

}  // namespace gradwire
