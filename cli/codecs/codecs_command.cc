#include "cli/codecs/codecs_command.h"

#include <fmt/format.h>

#include "base/json_value.h"
#include "cli/arguments.h"
#include "cli/codecs/codec_facts.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"

namespace gradwire {
namespace {

constexpr char kDescription[] =
    "Prints every codec: how it is summed, how many bits of a matrix of 1024 x 1024 float32 each\n"
    "rank contributes, and what it is safe with: SGD with momentum, Adam, AMP's loss scaling.\n"
    "docs/choosing_a_codec.md helps to choose.\n\n"
    "example: gradwire codecs --ranks 16";
constexpr char kAboutAuto[] =
    "# auto is a spec too, and no codec: in training steps it chooses for each registered tensor;\n"
    "# `gradwire advise --model resnet50` tells what it would choose, and it is measured by\n"
    "# `gradwire train --model resnet50 --compute-ms 80 -x auto`\n";
constexpr int kMaxRanks = 4096;

std::string YesNo(bool yes) { return yes ? "yes" : "no"; }

std::string Text(const std::vector<CodecFacts>& all, int ranks) {
  std::vector<std::vector<std::string>> rows = {{"#", "spec", "scheme", "class", "reduced as",
                                                 "bits/elem", "unbiased", "feedback", "momentum",
                                                 "Adam", "AMP", "note"}};
  for (const CodecFacts& c : all) {
    const bool fits = c.refused.empty();
    rows.push_back({"", c.spec, c.scheme, c.reduce_class, c.reduces_as,
                    fits ? fmt::format("{:.3f}", c.bits_per_elem) : "-", YesNo(c.unbiased),
                    YesNo(c.feedback), YesNo(c.advice.momentum), YesNo(c.advice.adam),
                    YesNo(c.advice.amp), fits ? c.advice.note : "refused: " + c.refused});
  }
  return fmt::format("# {} ranks\n{}{}", ranks, FormatColumns(rows), kAboutAuto);
}

std::string Json(const std::vector<CodecFacts>& all, int ranks) {
  JsonValue json = {{"schema_version", 1}, {"ranks", ranks}};
  for (const CodecFacts& c : all) {
    json["codecs"].push_back(
        {{"spec", c.spec},
         {"scheme", c.scheme},
         {"reduce_class", c.reduce_class},
         {"reduced_as", c.reduces_as},
         {"refused", c.refused},
         {"bits_per_elem", c.refused.empty() ? JsonValue(c.bits_per_elem) : JsonValue()},
         {"unbiased", c.unbiased},
         {"feedback", c.feedback},
         {"momentum", c.advice.momentum},
         {"adam", c.advice.adam},
         {"amp", c.advice.amp},
         {"note", c.advice.note}});
  }
  return json.dump(1) + "\n";
}

}  // namespace

int CodecsCommand(std::span<const std::string> args) {
  CommandLine line(kDescription, "gradwire codecs");
  int ranks = 4;
  std::string json_path;
  line.Add("-n,--ranks", &ranks, "world size; default 4").InRange(2, kMaxRanks);
  line.AddJson("--json", &json_path);
  if (const auto code = line.Parse(args)) return *code;
  const std::vector<CodecFacts> all = ListCodecFacts(ranks);
  const Status written = WriteTextTo(json_path.empty() ? "-" : json_path,
                                     json_path.empty() ? Text(all, ranks) : Json(all, ranks));
  return written.ok() ? kExitOk : ReportError("codecs", written);
}

}  // namespace gradwire
