// JSON that programs write. A source that includes nlohmann's own header compiles for 5 to 17
// seconds; this one has no templates in it that it does not need.
#ifndef GRADWIRE_BASE_JSON_VALUE_H_
#define GRADWIRE_BASE_JSON_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace gradwire {

// A value of any JSON type, written as with nlohmann::ordered_json, which prints it:
//   JsonValue json = {{"ranks", 4}, {"sizes", {1, 2}}, {"netlab", nullptr}};
//   json["results"].push_back({{"rank", 0}});
// Members stay in the order in which they came.
class JsonValue {
 public:
  JsonValue();  // null
  JsonValue(std::nullptr_t);
  JsonValue(bool value);
  JsonValue(int value);
  JsonValue(unsigned value);
  JsonValue(long value);
  JsonValue(unsigned long value);
  JsonValue(double value);
  JsonValue(const char* text);
  JsonValue(std::string text);
  JsonValue(std::string_view text);
  // An object where every item is an array of two of which the first is a string, else an array.
  JsonValue(std::initializer_list<JsonValue> items);
  template <typename T>
  JsonValue(const std::optional<T>& value) : JsonValue() {  // null where there is none
    if (value) *this = JsonValue(*value);
  }
  template <typename T>
  JsonValue(const std::vector<T>& items) : JsonValue(array()) {
    for (const T& item : items) push_back(item);
  }
  template <typename T>
  JsonValue(const std::map<std::string, T>& members) : JsonValue(object()) {
    for (const auto& [key, value] : members) (*this)[key] = value;
  }
  JsonValue(const JsonValue&);
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(const JsonValue&);
  JsonValue& operator=(JsonValue&&) noexcept;
  ~JsonValue();

  static JsonValue array();   // without items
  static JsonValue object();  // without members

  // Of an object, or of null, which becomes one. A member that was not there is null.
  JsonValue& operator[](std::string_view key);
  // To an array, or to null, which becomes one.
  void push_back(JsonValue item);
  // Sets the members of `other` here: both are objects.
  void update(const JsonValue& other);

  // On one line, or each item on a line of its own, indented by so many spaces a level. What is no
  // UTF-8 is replaced; NaN and infinities become null.
  std::string dump(int indent = -1) const;

 private:
  friend struct JsonPrinter;
  using Array = std::vector<JsonValue>;
  using Object = std::vector<std::pair<std::string, JsonValue>>;

  std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, Array, Object> value_;
};

}  // namespace gradwire

#endif  // GRADWIRE_BASE_JSON_VALUE_H_
