// Strings, numbers and objects as JSON text.
#ifndef GRADWIRE_RUNTIME_JSON_TEXT_H_
#define GRADWIRE_RUNTIME_JSON_TEXT_H_

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace gradwire {

// With its quotes. JSON is UTF-8: bytes that are none, as in a name of another encoding, are told
// as U+FFFD each.
std::string JsonText(std::string_view text);

// Numbers that JSON does not have, such as the distance of a codec that keeps nothing, are null.
std::string NumberText(double value);

// A list of what `format`, a function of an item, has for each.
template <typename Items, typename Format>
std::string JsonList(const Items& items, const Format& format, std::string_view between = ", ") {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += between;
    text += format(item);
  }
  return '[' + text + ']';
}

// An object in one line, its members in the order in which they are added:
//   JsonObject().Add("rank", 3).Add("name", "w").Text()  is  {"rank": 3, "name": "w"}
class JsonObject {
 public:
  // A bool, an integer, a double, a text, or one of them if it is there: else null.
  template <typename T>
  JsonObject& Add(std::string_view name, const T& value) {
    return AddJson(name, JsonOf(value));
  }
  // What is JSON already.
  JsonObject& AddJson(std::string_view name, std::string_view json);

  std::string Text() const { return text_ + '}'; }

 private:
  template <typename T>
  static std::string JsonOf(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      return std::to_string(value);
    } else if constexpr (std::is_same_v<T, double>) {
      return NumberText(value);
    } else {
      return JsonText(value);
    }
  }
  template <typename T>
  static std::string JsonOf(const std::optional<T>& value) {
    return value ? JsonOf(*value) : "null";
  }

  std::string text_ = "{";
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_JSON_TEXT_H_
