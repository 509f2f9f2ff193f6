#include "runtime/recorder/recorded_text.h"

#include <algorithm>
#include <cstddef>

#include "runtime/recorder/format.h"

namespace gradwire {
namespace {

// Cut in the middle: values often differ at their ends only, where the ranks stand too.
std::string Shorten(const std::string& text, size_t room) {
  if (text.size() <= room) return text;
  const size_t tail = room / 2;
  return text.substr(0, room - tail - 1) + kRecorderCut + text.substr(text.size() - tail);
}

}  // namespace

std::string RecordedText(const ErrorDetail& d) {
  if (d.field.empty()) return d.message;
  constexpr size_t kFieldBytes = 20;  // longer than any; the rest is for the values
  const std::string field = Shorten(d.field, kFieldBytes) + ": ", between = ", ";
  const size_t room = kRecorderTextBytes - field.size() - between.size(), half = room / 2;
  // Who needs less than a half leaves the rest to the other.
  const std::string expected =
      Shorten(d.expected, std::max(half, room - std::min(room, d.actual.size())));
  return field + expected + between + Shorten(d.actual, room - expected.size());
}

}  // namespace gradwire
