#include "compress/spec_args.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/nearest_name.h"

namespace gradwire {
namespace {

std::string Joined(std::span<const std::string_view> words) {
  std::string out;
  for (std::string_view word : words) {
    if (!out.empty()) out += ", ";
    out += word;
  }
  return out;
}

// In quotes whatever the parser would not take as it is.
std::string Quoted(const std::string& value) {
  const bool plain = !value.empty() && value.find_first_of(",()=' ") == std::string::npos;
  return plain ? value : '"' + value + '"';
}

}  // namespace

std::string FormatReal(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string FormatSpecText(const SpecText& spec) {
  if (spec.args.empty()) return spec.name;
  std::string out = spec.name + "(";
  for (const auto& [key, value] : spec.args) {
    if (out.back() != '(') out += ',';
    if (!key.empty()) out += key + "=";
    out += Quoted(value);
  }
  return out + ")";
}

std::string NameHint(std::string_view name, std::span<const std::string_view> known) {
  if (known.empty()) return "None is accepted";
  return DidYouMean(name, known, "Known: " + Joined(known));
}

const std::string* SpecArgs::Find(std::string_view key) const {
  for (const auto& [k, value] : spec_.args) {
    if (k == key) return &value;
  }
  return nullptr;
}

void SpecArgs::Fail(std::string_view key, std::string_view value, const std::string& hint) {
  if (!status_.ok()) return;
  const std::string setting = std::string(key) + "=" + std::string(value);
  status_ = Status(gwInvalidArgument, spec_.name + " does not accept " + setting, hint);
}

int64_t SpecArgs::Int(std::string_view key, int64_t otherwise, const IntRange& range) {
  int64_t value = otherwise;
  if (const std::string* text = Find(key); text != nullptr) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    const bool whole = error == std::errc() && end == text->data() + text->size();
    if (!whole || value < range.min || value > range.max || value % range.multiple_of != 0) {
      std::string accepted = std::to_string(range.min) + ".." + std::to_string(range.max);
      if (range.multiple_of != 1) accepted += ", multiples of " + std::to_string(range.multiple_of);
      Fail(key, *text, "Accepted: " + accepted);
      value = otherwise;
    }
  }
  canonical_.args.emplace_back(key, std::to_string(value));
  return value;
}

double SpecArgs::Real(std::string_view key, double otherwise, double min, double max) {
  return ReadReal(key, otherwise, {.min = min, .max = max});
}

double SpecArgs::RealOrZero(std::string_view key, double otherwise, double min, double max) {
  return ReadReal(key, otherwise, {.min = min, .max = max, .zero = true});
}

double SpecArgs::ReadReal(std::string_view key, double otherwise, const Reals& accepted) {
  double value = otherwise;
  if (const std::string* text = Find(key); text != nullptr) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    const bool whole = error == std::errc() && end == text->data() + text->size();
    const bool within = value >= accepted.min && value <= accepted.max;
    if (!whole || !(within || (accepted.zero && value == 0))) {
      Fail(key, *text,
           HintOfPercent(*text, accepted) + "Accepted: " + (accepted.zero ? "0, or " : "") +
               FormatReal(accepted.min) + " to " + FormatReal(accepted.max));
      value = otherwise;
    }
  }
  if (value == 0) value = 0;  // "-0" is the same spec
  canonical_.args.emplace_back(key, FormatReal(value));
  return value;
}

// Also of "5" where 1 is the most: whoever writes it means 5 %.
std::string SpecArgs::HintOfPercent(const std::string& text, const Reals& accepted) {
  double percent = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, percent);
  const bool has_sign = std::string_view(stop, end) == "%";
  const bool may_mean = has_sign || (stop == end && accepted.max <= 1 && percent > 1);
  const double value = percent / 100;
  const bool fits = value >= accepted.min && value <= accepted.max;
  if (error != std::errc() || !may_mean || !fits) return {};
  return "Did you mean " + FormatReal(value) + ", which is " + FormatReal(percent) + " %? ";
}

void SpecArgs::Refuse(std::string_view key, const std::string& why) {
  if (const std::string* text = Find(key); text != nullptr) Fail(key, *text, why);
}

std::string SpecArgs::Choice(std::string_view key,
                             std::initializer_list<std::string_view> choices) {
  std::string_view value = *choices.begin();
  if (const std::string* text = Find(key); text != nullptr) {
    const auto found = std::find(choices.begin(), choices.end(), *text);
    if (found == choices.end()) {
      const std::span<const std::string_view> known(choices.begin(), choices.size());
      Fail(key, *text, DidYouMean(*text, known, "Accepted: " + Joined(known)));
    } else {
      value = *found;
    }
  }
  canonical_.args.emplace_back(key, value);
  return std::string(value);
}

std::string SpecArgs::Text(std::string_view key) {
  const std::string* text = Find(key);
  if (text == nullptr || text->empty()) return {};
  canonical_.args.emplace_back(key, *text);
  return *text;
}

Feedback SpecArgs::ReadFeedback(Feedback otherwise) {
  const bool on = otherwise == Feedback::kOn;
  const std::string value =
      on ? Choice("feedback", {"on", "off"}) : Choice("feedback", {"off", "on"});
  return value == "on" ? Feedback::kOn : Feedback::kOff;
}

}  // namespace gradwire
