// Codec registry and spec strings: `none`, `bf16`, `qsgd(bits=4,block=256)`, ... mean the same in
// the API, the environment, files and on command lines.
#ifndef GRADWIRE_COMPRESS_REGISTRY_H_
#define GRADWIRE_COMPRESS_REGISTRY_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compress/carrier_method.h"
#include "compress/payload_codec.h"

namespace gradwire {

// A parsed spec: name, positional and named arguments as text, in order.
// A row's make gets named arguments only: MakeCodec has given positional ones their keys.
struct SpecText {
  std::string name;
  std::vector<std::pair<std::string, std::string>> args;  // key empty: positional
};

// Syntax only: NAME or NAME(ARG, KEY=VALUE, ...); blanks are ignored. A value with a comma, a
// parenthesis or a blank stands in quotes: exclude="*.bias,*norm*".
StatusOr<SpecText> ParseSpecText(std::string_view text);

// Default of min_numel for topk and all that travels in carriers: what they save on less is not
// worth their rounds, and packed lanes of a dozen elements are longer than the elements.
inline constexpr int64_t kMinNumelOfTensors = 1024;

enum class Feedback : uint8_t { kOff, kOn };

// A codec ready for use: what a registry row made of a spec.
struct Codec {
  std::string spec;  // canonical text, defaults filled in; equal text = equal codec
  Feedback feedback = Feedback::kOff;
  std::shared_ptr<const PayloadCodec> payload;   // null: none
  std::shared_ptr<const CarrierMethod> carrier;  // null: none
  // Tensors with fewer dimensions, fewer elements or a name that matches `exclude` (comma-separated
  // globs) travel as `none`. Every spec takes the last two as options; `make` gives the defaults.
  int min_dims = 0;
  int64_t min_numel = 0;
  std::string exclude;

  // gwInvalidArgument with the valid range where so many ranks cannot use it for this tensor.
  Status Check(const TensorMeta& tensor, int world_size) const {
    return carrier ? carrier->Check(tensor, world_size) : payload->Check(tensor.elems);
  }
};

// What a codec is safe with; the note says why not, or what to mind. What nobody has measured is
// safe only where its error law says so.
struct OptimizerAdvice {
  bool momentum = true;  // the usual 0.9, at the learning rate that is right without compression
  bool adam = true;
  bool amp = true;  // loss scaling: large values pass, and every rank sees an overflow
  std::string note;
};

struct CodecRow {
  std::string name;
  std::string doc;  // one line: error law, bits per element, paper
  // Accepted arguments but for the common ones, for errors and `gradwire info`; positional
  // arguments take them in this order.
  std::vector<std::string> keys;
  std::vector<std::string> conformance_specs;  // specs the conformance suite runs
  // Those that people use, for tables. Empty: those of the conformance suite.
  std::vector<std::string> shown_specs;
  OptimizerAdvice advice;
  // Where advice depends on the arguments: that of a canonical spec. Null: `advice` is of all.
  OptimizerAdvice (*advise)(const SpecText&) = nullptr;
  StatusOr<Codec> (*make)(const SpecText&);

  OptimizerAdvice AdviceFor(const Codec& codec) const;

  const std::vector<std::string>& ShownSpecs() const {
    return shown_specs.empty() ? conformance_specs : shown_specs;
  }
};

// compress/registry.cc.
std::span<const CodecRow> Codecs();

// An unknown name or key, or a value out of range, is gwInvalidArgument that says what is accepted
// and suggests the nearest spelling; feedback=on where it is unsound likewise. Common options
// (min_numel, exclude, feedback) are parsed here.
StatusOr<Codec> MakeCodec(std::string_view spec);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_REGISTRY_H_
