#include "runtime/spec/auto_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "compress/spec_args.h"

namespace gradwire {
namespace {

constexpr std::string_view kName = "auto";
constexpr std::array<std::string_view, 5> kKeys = {"error", "lag", "allow", "min_numel", "exclude"};

constexpr double kErrorBound = 0.1;
constexpr double kLagBound = 1.0;
constexpr double kLeastBound = 1e-6;
constexpr double kMaxErrorBound = 1.0;
// Top-k of 1 % keeps back some ten steps' worth of gradients; what keeps back more does not train.
constexpr double kMaxLagBound = 100.0;
// 1 KiB of float32 takes 0.08 ms at 100 Mbit/s, no more than a message costs anyway. At four times
// as many, models of many small tensors were left slower than a codec for all of them.
constexpr int64_t kMinNumel = 256;
constexpr int64_t kMaxMinNumel = int64_t{1} << 40;

// Lightest first: each loses more and sends less than the one before.
constexpr std::array<std::string_view, 5> kLadder = {"none", "bf16", "qsgd(bits=8,feedback=off)",
                                                     "qsgd(bits=6,feedback=off)",
                                                     "qsgd(bits=4,feedback=on)"};

// What a codec named without its strength stands for, lightest first. Every rung has to be probed
// before it may be chosen, and again while it is not: four span the useful range in steps of two or
// three, finer ones differ by less than their probes tell.
struct Strengths {
  std::string_view name;
  std::array<std::string_view, 4> specs;
};
constexpr std::array<Strengths, 4> kStrengths = {{
    {"topk", {"topk(0.1)", "topk(0.03)", "topk(0.01)", "topk(0.003)"}},
    {"randk", {"randk(0.3)", "randk(0.2)", "randk(0.1)", "randk(0.05)"}},
    {"powersgd", {"powersgd(rank=8)", "powersgd(rank=4)", "powersgd(rank=2)", "powersgd(rank=1)"}},
    {"acp", {"acp(rank=8)", "acp(rank=4)", "acp(rank=2)", "acp(rank=1)"}},
}};

Status CheckKeys(const SpecText& text) {
  for (const auto& [key, value] : text.args) {
    if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) continue;
    const std::string what = key.empty() ? "a value without a key" : "the key \"" + key + "\"";
    return Status(gwInvalidArgument, "auto does not accept " + what,
                  NameHint(key.empty() ? value : key, kKeys));
  }
  return Status();
}

// At commas outside parentheses.
std::vector<std::string> SplitSpecs(std::string_view list) {
  std::vector<std::string> specs;
  int depth = 0;
  bool open = false;
  for (const char c : list) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    const bool separates = c == ',' && depth == 0;
    if (!separates && !open) specs.emplace_back();
    if (!separates) specs.back() += c;
    open = !separates;
  }
  return specs;
}

std::vector<std::string> WithStrengths(const std::string& spec) {
  const StatusOr<SpecText> text = ParseSpecText(spec);
  const auto named =
      std::find_if(kStrengths.begin(), kStrengths.end(), [&](const Strengths& codec) {
        return text.ok() && text->args.empty() && codec.name == text->name;
      });
  if (named == kStrengths.end()) return {spec};
  return {named->specs.begin(), named->specs.end()};
}

// Whether some tensor may be automatic at all.
Status CheckExclude(std::string_view globs) {
  for (size_t begin = 0; begin <= globs.size();) {
    const size_t end = std::min(globs.find(',', begin), globs.size());
    const std::string_view glob = globs.substr(begin, end - begin);
    // Names have a character at least.
    const bool is_all = glob.find('*') != glob.npos && glob.find_first_not_of("*?") == glob.npos &&
                        std::count(glob.begin(), glob.end(), '?') <= 1;
    if (is_all) {
      return Status(gwInvalidArgument, "exclude= names every tensor: auto has none to choose for",
                    "Write exclude=\"*.bias,*norm*\", or the spec none");
    }
    begin = end + 1;
  }
  return Status();
}

struct Limits {
  double error, lag;
  int64_t min_numel;
  std::string exclude;
};

// What cannot be tried on a piece of one gradient cannot be chosen by it.
Status CheckChoosable(const Codec& codec) {
  const CodecTraits& traits = codec.carrier ? codec.carrier->traits() : codec.payload->traits();
  if (!traits.estimates_sum) {
    return Status(gwInvalidArgument, codec.spec + " does not estimate the sum of gradients",
                  "Set it as the tensor's spec; auto chooses between estimates");
  }
  if (traits.scales_from_past) {
    return Status(gwInvalidArgument,
                  codec.spec + " has its scale from earlier sums: no gradient tells what it loses",
                  "Set it as the tensor's spec; auto may choose qsgd(sum=carrier,feedback=off)");
  }
  const StatusOr<SpecText> text = ParseSpecText(codec.spec);
  for (const auto& [key, value] : text.ok() ? text->args : decltype(text->args)()) {
    const bool delays = (key == "start_step" || key == "warmup") && value != "0";
    if (!delays) continue;
    return Status(gwInvalidArgument, "auto begins with steps of bf16 and of none",
                  "Leave " + key + "= out");
  }
  return Status();
}

StatusOr<Rung> MakeRung(std::string_view spec, const Limits& limits) {
  StatusOr<Codec> codec = MakeCodec(spec);
  if (!codec.ok()) return codec.status();
  GW_RETURN_IF_ERROR(CheckChoosable(*codec));
  codec->min_numel = std::max(codec->min_numel, limits.min_numel);
  if (!limits.exclude.empty()) {
    codec->exclude += codec->exclude.empty() ? limits.exclude : "," + limits.exclude;
  }
  const bool feedback = codec->feedback == Feedback::kOn;
  return Rung{std::move(*codec), feedback ? limits.lag : limits.error};
}

}  // namespace

bool IsAutoSpec(std::string_view spec) {
  const StatusOr<SpecText> text = ParseSpecText(spec);
  return text.ok() && text->name == kName;
}

StatusOr<AutoSpec> MakeAutoSpec(std::string_view spec) {
  const StatusOr<SpecText> text = ParseSpecText(spec);
  if (!text.ok()) return text.status();
  GW_RETURN_IF_ERROR(CheckKeys(*text));
  SpecArgs args(*text);
  const double error = args.Real("error", kErrorBound, kLeastBound, kMaxErrorBound);
  const double lag = args.Real("lag", kLagBound, kLeastBound, kMaxLagBound);
  const std::string allow = args.Text("allow");
  const int64_t min_numel = args.Int("min_numel", kMinNumel, {.min = 0, .max = kMaxMinNumel});
  const Limits limits = {error, lag, min_numel, args.Text("exclude")};
  GW_RETURN_IF_ERROR(args.status());
  GW_RETURN_IF_ERROR(CheckExclude(limits.exclude));

  AutoSpec made = {.spec = args.canonical()};
  std::vector<std::string> specs(kLadder.begin(), kLadder.end());
  for (const std::string& allowed : SplitSpecs(allow)) {
    for (std::string& strength : WithStrengths(allowed)) specs.push_back(std::move(strength));
  }
  for (const std::string& rung_spec : specs) {
    StatusOr<Rung> rung = MakeRung(rung_spec, limits);
    if (!rung.ok()) return rung.status();
    const bool twice = std::any_of(made.ladder.begin(), made.ladder.end(), [&](const Rung& other) {
      return other.codec.spec == rung->codec.spec;
    });
    if (!twice) made.ladder.push_back(std::move(*rung));
  }
  if (made.ladder.size() > kMaxRungs) {
    return Status(gwInvalidArgument,
                  fmt::format("allow= names {} codecs: with those of auto there are {}",
                              made.ladder.size() - kLadder.size(), made.ladder.size()),
                  fmt::format("Name up to {}", kMaxRungs - kLadder.size()));
  }
  return made;
}

Status CheckSpec(std::string_view spec) {
  return IsAutoSpec(spec) ? Status(MakeAutoSpec(spec).status()) : Status(MakeCodec(spec).status());
}

}  // namespace gradwire
