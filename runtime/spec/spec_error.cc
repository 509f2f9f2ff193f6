#include "runtime/spec/spec_error.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compress/registry.h"
#include "compress/spec_args.h"

namespace gradwire {

Status WithAutoAmongCodecs(Status error, std::string_view spec) {
  const StatusOr<SpecText> text = ParseSpecText(spec);
  if (error.ok() || !text.ok()) return error;
  std::vector<std::string_view> known;
  for (const CodecRow& row : Codecs()) known.push_back(row.name);
  known.push_back("auto");
  // Something else is wrong with it.
  if (std::find(known.begin(), known.end(), text->name) != known.end()) return error;
  ErrorDetail detail = error.detail();
  detail.hint = NameHint(text->name, known);
  return Status(error.code(), std::move(detail));
}

}  // namespace gradwire
