#include "base/json_value.h"

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>

namespace gradwire {

using Printed = nlohmann::ordered_json;

struct JsonPrinter {
  static Printed ToPrinted(const JsonValue& json) {
    return std::visit([](const auto& value) { return ToPrinted(value); }, json.value_);
  }
  template <typename Scalar>
  static Printed ToPrinted(const Scalar& value) {
    return value;
  }
  static Printed ToPrinted(const JsonValue::Array& items) {
    Printed printed = Printed::array();
    for (const JsonValue& item : items) printed.push_back(ToPrinted(item));
    return printed;
  }
  static Printed ToPrinted(const JsonValue::Object& members) {
    Printed printed = Printed::object();
    for (const auto& [key, value] : members) printed[key] = ToPrinted(value);
    return printed;
  }
};

JsonValue::JsonValue() = default;
JsonValue::JsonValue(std::nullptr_t) {}
JsonValue::JsonValue(bool value) : value_(value) {}
JsonValue::JsonValue(int value) : value_(int64_t{value}) {}
JsonValue::JsonValue(unsigned value) : value_(uint64_t{value}) {}
JsonValue::JsonValue(long value) : value_(int64_t{value}) {}
JsonValue::JsonValue(unsigned long value) : value_(uint64_t{value}) {}
JsonValue::JsonValue(double value) : value_(value) {}
JsonValue::JsonValue(const char* text) : value_(std::string(text)) {}
JsonValue::JsonValue(std::string text) : value_(std::move(text)) {}
JsonValue::JsonValue(std::string_view text) : value_(std::string(text)) {}

JsonValue::JsonValue(std::initializer_list<JsonValue> items) {
  const auto is_member = [](const JsonValue& item) {
    const Array* pair = std::get_if<Array>(&item.value_);
    return pair != nullptr && pair->size() == 2 &&
           std::holds_alternative<std::string>((*pair)[0].value_);
  };
  if (!std::all_of(items.begin(), items.end(), is_member)) {
    value_ = Array(items);
    return;
  }
  value_ = Object();
  for (const JsonValue& item : items) {
    const Array& pair = std::get<Array>(item.value_);
    (*this)[std::get<std::string>(pair[0].value_)] = pair[1];
  }
}

JsonValue::JsonValue(const JsonValue&) = default;
JsonValue::JsonValue(JsonValue&&) noexcept = default;
JsonValue& JsonValue::operator=(const JsonValue&) = default;
JsonValue& JsonValue::operator=(JsonValue&&) noexcept = default;
JsonValue::~JsonValue() = default;

JsonValue JsonValue::array() {
  JsonValue json;
  json.value_ = Array();
  return json;
}

JsonValue JsonValue::object() {
  JsonValue json;
  json.value_ = Object();
  return json;
}

JsonValue& JsonValue::operator[](std::string_view key) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Object();
  assert(std::holds_alternative<Object>(value_));
  Object& members = std::get<Object>(value_);
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const auto& member) { return member.first == key; });
  return found != members.end() ? found->second : members.emplace_back(key, JsonValue()).second;
}

void JsonValue::push_back(JsonValue item) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Array();
  assert(std::holds_alternative<Array>(value_));
  std::get<Array>(value_).push_back(std::move(item));
}

void JsonValue::update(const JsonValue& other) {
  assert(std::holds_alternative<Object>(other.value_));
  for (const auto& [key, value] : std::get<Object>(other.value_)) (*this)[key] = value;
}

std::string JsonValue::dump(int indent) const {
  return JsonPrinter::ToPrinted(*this).dump(indent, ' ', /*ensure_ascii=*/false,
                                            Printed::error_handler_t::replace);
}

}  // namespace gradwire
