// Reads the named arguments of a spec, for the factories of codecs.
#ifndef GRADWIRE_COMPRESS_SPEC_ARGS_H_
#define GRADWIRE_COMPRESS_SPEC_ARGS_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "compress/registry.h"

namespace gradwire {

// The inverse of ParseSpecText: NAME, or NAME(KEY=VALUE,...) without blanks; values that hold a
// comma, a parenthesis, an equals sign or a blank are quoted.
std::string FormatSpecText(const SpecText& spec);

// As few digits as give the value back.
std::string FormatReal(double value);

// "Did you mean 'b'? Known: a, b, c", or "Known: a, b, c" where none is near; the hint of every
// error about a name.
std::string NameHint(std::string_view name, std::span<const std::string_view> known);

// Of a spec: a moving average over more steps than that is not one any more.
inline constexpr double kMaxMomentum = 0.9999;

struct IntRange {
  int64_t min = 0;
  int64_t max = 0;
  int64_t multiple_of = 1;
};

// Values of one spec. Every reader also writes the value, defaults filled in, to the canonical
// spec, in the order of the calls. The first error stays; readers then return their defaults.
class SpecArgs {
 public:
  // `spec` has named arguments only (MakeCodec turns positional ones into named ones) and outlives
  // this.
  explicit SpecArgs(const SpecText& spec) : spec_(spec), canonical_{.name = spec.name} {}

  int64_t Int(std::string_view key, int64_t otherwise, const IntRange& range);
  double Real(std::string_view key, double otherwise, double min, double max);
  // Of what 0 switches off: 0, or from `min` to `max`.
  double RealOrZero(std::string_view key, double otherwise, double min, double max);
  // Any text; empty unless given, and then left out of the canonical spec.
  std::string Text(std::string_view key);
  // An option that another one excludes: an error if it is given.
  void Refuse(std::string_view key, const std::string& why);
  // One of `choices`; the first is the default.
  std::string Choice(std::string_view key, std::initializer_list<std::string_view> choices);
  // feedback=on|off.
  Feedback ReadFeedback(Feedback otherwise);

  const Status& status() const { return status_; }
  std::string canonical() const { return FormatSpecText(canonical_); }

 private:
  struct Reals {
    double min = 0, max = 0;
    bool zero = false;  // accepted too
  };
  static std::string HintOfPercent(const std::string& text, const Reals& accepted);
  double ReadReal(std::string_view key, double otherwise, const Reals& accepted);
  const std::string* Find(std::string_view key) const;
  void Fail(std::string_view key, std::string_view value, const std::string& hint);

  const SpecText& spec_;
  SpecText canonical_;
  Status status_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_SPEC_ARGS_H_
