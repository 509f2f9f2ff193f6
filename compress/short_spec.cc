#include "compress/short_spec.h"

#include <cstddef>
#include <utility>

#include "compress/registry.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

bool IsStrength(const SpecText& spec, const std::string& key) {
  for (const CodecRow& row : Codecs()) {
    if (row.name == spec.name) return !row.keys.empty() && row.keys[0] == key;
  }
  return false;
}

}  // namespace

std::string ShortSpec(const std::string& canonical) {
  StatusOr<SpecText> text = ParseSpecText(canonical);
  if (!text.ok()) return canonical;
  for (size_t i = 0; i < text->args.size();) {
    SpecText without = *text;
    without.args.erase(without.args.begin() + static_cast<std::ptrdiff_t>(i));
    const StatusOr<Codec> codec = MakeCodec(FormatSpecText(without));
    const bool same = codec.ok() && codec->spec == canonical;
    if (same && !IsStrength(*text, text->args[i].first)) {
      *text = std::move(without);
    } else {
      ++i;
    }
  }
  return FormatSpecText(*text);
}

}  // namespace gradwire
