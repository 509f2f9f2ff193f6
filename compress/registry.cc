#include "compress/registry.h"

#include <algorithm>
#include <limits>

#include "compress/codecs/acp/acp_codec.h"
#include "compress/codecs/bf16/bf16_codec.h"
#include "compress/codecs/efsign/efsign_codec.h"
#include "compress/codecs/fp16/fp16_codec.h"
#include "compress/codecs/intsgd/intsgd_codec.h"
#include "compress/codecs/none/none_codec.h"
#include "compress/codecs/powersgd/powersgd_codec.h"
#include "compress/codecs/qsgd/qsgd_codec.h"
#include "compress/codecs/randk/randk_codec.h"
#include "compress/codecs/signsgd/signsgd_codec.h"
#include "compress/codecs/terngrad/terngrad_codec.h"
#include "compress/codecs/topk/topk_codec.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

// What every spec takes, beside the keys of its row.
constexpr std::string_view kFeedback = "feedback";
constexpr std::string_view kMinNumel = "min_numel";
constexpr std::string_view kExclude = "exclude";

StatusOr<const CodecRow*> FindRow(std::string_view name) {
  std::vector<std::string_view> known;
  for (const CodecRow& row : Codecs()) {
    if (row.name == name) return &row;
    known.push_back(row.name);
  }
  return Status(gwInvalidArgument, "unknown codec \"" + std::string(name) + "\"",
                NameHint(name, known));
}

// Gives positional arguments the keys of the row, in order, and refuses unknown and repeated keys.
StatusOr<SpecText> NameArguments(const CodecRow& row, const SpecText& spec) {
  std::vector<std::string_view> known(row.keys.begin(), row.keys.end());
  known.insert(known.end(), {kFeedback, kMinNumel, kExclude});
  SpecText named{.name = spec.name};
  std::vector<std::string_view> seen;
  for (size_t i = 0; i < spec.args.size(); ++i) {
    auto [key, value] = spec.args[i];
    // No option takes another one's name as its value.
    if (key.empty() && std::find(known.begin(), known.end(), value) != known.end()) {
      return Status(gwInvalidArgument, row.name + ": \"" + value + "\" has no value",
                    "Write " + value + (value == kFeedback ? "=on" : "=VALUE"));
    }
    if (key.empty()) {
      const bool leads = i == 0 || spec.args[i - 1].first.empty();
      if (!leads || i >= row.keys.size()) {
        return Status(gwInvalidArgument, row.name + ": \"" + value + "\" has no name",
                      "Write KEY=VALUE. " + NameHint(value, known));
      }
      key = row.keys[i];
    }
    const auto found = std::find(known.begin(), known.end(), key);
    if (found == known.end()) {
      return Status(gwInvalidArgument, row.name + " has no option \"" + key + "\"",
                    NameHint(key, known));
    }
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      return Status(gwInvalidArgument, row.name + ": \"" + key + "\" is given twice");
    }
    seen.push_back(*found);
    named.args.emplace_back(key, value);
  }
  return named;
}

// Feedback adds the error of one step to the next: it must shrink what it is given.
Status CheckFeedback(const Codec& codec) {
  const CodecTraits& traits = codec.payload ? codec.payload->traits() : codec.carrier->traits();
  if (codec.feedback == Feedback::kOff || traits.contractive) return Status::Ok();
  return Status(gwInvalidArgument, codec.spec + ": feedback=on needs a contractive codec",
                "Leave feedback out, or use bf16, qsgd or efsign");
}

// min_numel and exclude; both are left out of the canonical text where they change nothing.
Status ReadCommon(const SpecText& spec, Codec* codec) {
  SpecArgs args(spec);
  const int64_t usual = codec->min_numel;
  codec->min_numel =
      args.Int(kMinNumel, usual, {.min = 0, .max = std::numeric_limits<int64_t>::max()});
  codec->exclude = args.Text(kExclude);
  GW_RETURN_IF_ERROR(Status(args.status()));
  if (codec->min_numel == usual && codec->exclude.empty()) return Status::Ok();
  StatusOr<SpecText> canonical = ParseSpecText(codec->spec);
  if (!canonical.ok()) return canonical.status();
  if (codec->min_numel != usual) {
    canonical->args.emplace_back(kMinNumel, std::to_string(codec->min_numel));
  }
  if (!codec->exclude.empty()) canonical->args.emplace_back(kExclude, codec->exclude);
  codec->spec = FormatSpecText(*canonical);
  return Status::Ok();
}

}  // namespace

OptimizerAdvice CodecRow::AdviceFor(const Codec& codec) const {
  return advise == nullptr ? advice : advise(*ParseSpecText(codec.spec));
}

std::span<const CodecRow> Codecs() {
  static const std::vector<CodecRow> rows = {NoneRow(),   Bf16Row(),     Fp16Row(),    QsgdRow(),
                                             EfsignRow(), TerngradRow(), SignsgdRow(), TopkRow(),
                                             RandkRow(),  PowersgdRow(), AcpRow(),     IntsgdRow()};
  return rows;
}

StatusOr<Codec> MakeCodec(std::string_view spec) {
  const StatusOr<SpecText> parsed = ParseSpecText(spec);
  if (!parsed.ok()) return parsed.status();
  const StatusOr<const CodecRow*> row = FindRow(parsed->name);
  if (!row.ok()) return row.status();
  const StatusOr<SpecText> named = NameArguments(**row, *parsed);
  if (!named.ok()) return named.status();
  StatusOr<Codec> codec = (*row)->make(*named);
  if (!codec.ok()) return codec;
  GW_RETURN_IF_ERROR(CheckFeedback(*codec));
  GW_RETURN_IF_ERROR(ReadCommon(*named, &*codec));
  return codec;
}

}  // namespace gradwire
