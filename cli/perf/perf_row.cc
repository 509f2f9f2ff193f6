#include "cli/perf/perf_row.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_value.h"
#include "cli/text_output.h"

namespace gradwire {
namespace {

using Json = JsonValue;

// As nccl-tests prints times: 7 characters.
std::string TimeText(double us) {
  return us < 10    ? fmt::format("{:.3f}", us)
         : us < 1e5 ? fmt::format("{:.2f}", us)
                    : fmt::format("{:.0f}", us);
}

std::string BandwidthText(double value) {
  return value < 10 ? fmt::format("{:.3f}", value) : fmt::format("{:.2f}", value);
}

std::string WrongText(const Timing& timing) {
  return timing.wrong < 0 ? "N/A" : fmt::to_string(timing.wrong);
}

std::string OptionalText(const std::optional<double>& value) {
  return value ? fmt::format("{:.2e}", *value) : "N/A";
}

std::string RootText(const PerfCase& c) {
  return HasRoot(c.collective) ? fmt::to_string(c.root) : "-1";
}

std::string OpText(const PerfCase& c) {
  return Reduces(c.collective) ? std::string(Name(c.op)) : "none";
}

std::string TimingText(const PerfRow& row, const std::optional<Timing>& timing) {
  if (!timing) return fmt::format("  {:>8}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
  return fmt::format("  {:>8}  {:>6}  {:>6}  {:>6}", TimeText(timing->median_us),
                     BandwidthText(row.AlgBandwidth(*timing)),
                     BandwidthText(row.BusBandwidth(*timing)), WrongText(*timing));
}

Json TimingJson(const PerfRow& row, const std::optional<Timing>& timing) {
  if (!timing) return nullptr;
  Json json = {{"time_us", timing->median_us},
               {"time_mean_us", timing->mean_us},
               {"time_min_us", timing->min_us},
               {"time_p99_us", timing->p99_us},
               {"algbw", row.AlgBandwidth(*timing)},
               {"busbw", row.BusBandwidth(*timing)},
               {"eff_busbw", row.EffectiveBusBandwidth(*timing)},
               {"wrong", timing->wrong}};
  if (timing->wrong < 0) json["wrong"] = nullptr;
  return json;
}

}  // namespace

double PerfRow::AlgBandwidth(const Timing& t) const {
  return t.median_us > 0 ? static_cast<double>(perf_case.bytes) / t.median_us * 1e-3 : 0;
}

double PerfRow::EffectiveBusBandwidth(const Timing& t) const {
  return AlgBandwidth(t) * BusFactor(perf_case.collective, ranks);
}

double PerfRow::BusBandwidth(const Timing& t) const {
  if (perf_case.exact()) return EffectiveBusBandwidth(t);
  return t.median_us > 0 ? cost.wire_bytes / t.median_us * 1e-3 : 0;
}

double PerfRow::Ratio() const {
  const double optimal =
      static_cast<double>(perf_case.bytes) * BusFactor(perf_case.collective, ranks);
  return cost.wire_bytes > 0 ? optimal / cost.wire_bytes : 0;
}

double PerfRow::NetUs() const { return std::max(time_us() - cost.encode_us - cost.decode_us, 0.0); }

int64_t PerfRow::wrong() const {
  int64_t sum = 0;
  for (const auto& timing : {out_of_place, in_place}) {
    if (timing && timing->wrong > 0) sum += timing->wrong;
  }
  return sum;
}

std::string TableHeader() {
  return fmt::format("#{:>59}  {:^30}  {:^30}\n", "", "out-of-place", "in-place") +
         fmt::format("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop",
                     "root") +
         std::string(2, ' ') +
         fmt::format("{0:>8}  {1:>6}  {2:>6}  {3:>6}  {0:>8}  {1:>6}  {2:>6}  {3:>6}", "time",
                     "algbw", "busbw", "#wrong") +
         fmt::format("  {:>11}  {:>6}  {:>16}  {:>8}  {:>8}  {:>8}  {:>8}  {:>9}", "wire_bytes",
                     "ratio", "encodes_per_elem", "enc_us", "net_us", "dec_us", "relerr",
                     "eff_busbw") +
         fmt::format("\n#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "") +
         fmt::format("  {0:>8}  {1:>6}  {1:>6}  {2:>6}  {0:>8}  {1:>6}  {1:>6}", "(us)", "(GB/s)",
                     "");
}

std::string TableRow(const PerfRow& row) {
  const PerfCase& c = row.perf_case;
  const double eff = row.out_of_place ? row.EffectiveBusBandwidth(*row.out_of_place) : 0;
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", c.bytes, CountOf(c, row.ranks),
                     Name(c.dtype), OpText(c), RootText(c)) +
         TimingText(row, row.out_of_place) + TimingText(row, row.in_place) +
         fmt::format("  {:>11.0f}  {:>6.2f}  {:>16g}  {:>8}  {:>8}  {:>8}  {:>8}  {:>9}",
                     row.cost.wire_bytes, row.Ratio(), row.cost.encodes_per_elem,
                     TimeText(row.cost.encode_us), TimeText(row.NetUs()),
                     TimeText(row.cost.decode_us), OptionalText(row.relerr), BandwidthText(eff));
}

std::string CsvHeader() {
  return "collective,spec,algorithm,transport,ranks,size,count,type,redop,root,in_place,time_us,"
         "time_mean_us,time_min_us,time_p99_us,algbw,busbw,wrong,wire_bytes,ratio,"
         "encodes_per_elem,enc_us,net_us,dec_us,relerr,eff_busbw";
}

namespace {

// "wire_bytes,...,relerr,".
std::string CostCells(const PerfRow& row) {
  return fmt::format("{:.0f},{:.4f},{:g},{:.3f},{:.3f},{:.3f},{},", row.cost.wire_bytes,
                     row.Ratio(), row.cost.encodes_per_elem, row.cost.encode_us, row.NetUs(),
                     row.cost.decode_us, row.relerr ? fmt::format("{:.6e}", *row.relerr) : "");
}

}  // namespace

std::string CsvLines(const PerfRow& row) {
  const PerfCase& c = row.perf_case;
  std::string lines;
  for (const bool in_place : {false, true}) {
    const std::optional<Timing>& t = in_place ? row.in_place : row.out_of_place;
    if (!t) continue;
    lines += fmt::format("{},{},{},{},{},{},{},{},{},{},{},", Name(c.collective), CsvText(c.spec),
                         row.algorithm, row.transport, row.ranks, c.bytes, CountOf(c, row.ranks),
                         Name(c.dtype), OpText(c), RootText(c), in_place ? 1 : 0);
    lines += fmt::format("{:.3f},{:.3f},{:.3f},{:.3f},{:.6f},{:.6f},{},", t->median_us, t->mean_us,
                         t->min_us, t->p99_us, row.AlgBandwidth(*t), row.BusBandwidth(*t),
                         t->wrong < 0 ? "" : fmt::to_string(t->wrong));
    lines += in_place ? ",,,,,,," : CostCells(row);
    lines += fmt::format("{:.6f}\n", row.EffectiveBusBandwidth(*t));
  }
  return lines;
}

Json RowJson(const PerfRow& row) {
  const PerfCase& c = row.perf_case;
  Json json = {{"collective", std::string(Name(c.collective))},
               {"spec", c.spec},
               {"algorithm", row.algorithm},
               {"transport", row.transport},
               {"ranks", row.ranks},
               {"size", c.bytes},
               {"count", CountOf(c, row.ranks)},
               {"type", std::string(Name(c.dtype))},
               {"redop", OpText(c)},
               {"root", HasRoot(c.collective) ? c.root : -1},
               {"out_of_place", TimingJson(row, row.out_of_place)},
               {"in_place", TimingJson(row, row.in_place)},
               {"wire_bytes", row.cost.wire_bytes},
               {"ratio", row.Ratio()},
               {"encodes_per_elem", row.cost.encodes_per_elem},
               {"enc_us", row.cost.encode_us},
               {"net_us", row.NetUs()},
               {"dec_us", row.cost.decode_us},
               {"relerr", nullptr}};
  if (row.relerr) json["relerr"] = *row.relerr;
  return json;
}

}  // namespace gradwire
