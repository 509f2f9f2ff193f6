#include "cli/models/shapes_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/text_input.h"

namespace gradwire {
namespace {

using Json = nlohmann::json;

constexpr char kValidForm[] =
    R"(Write {"name": "mine", "tensors": [{"name": "fc.weight", "shape": [256, 784]}, ...]})"
    ", in forward order";

Status Wrong(std::string message) { return Status(gwInvalidArgument, std::move(message)); }

// Null: no object, or without that member.
const Json* Member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it == object.end() ? nullptr : &*it;
}

std::optional<std::string> TextMember(const Json& object, const char* name) {
  const Json* member = Member(object, name);
  if (member == nullptr || !member->is_string()) return std::nullopt;
  return member->get<std::string>();
}

StatusOr<std::vector<int64_t>> LengthsOf(const Json& tensor) {
  const Json* shape = Member(tensor, "shape");
  if (shape == nullptr || !shape->is_array()) return Wrong("has no array 'shape'");
  std::vector<int64_t> lengths;
  for (const Json& length : *shape) {
    // Unsigned ones above the largest signed number would become negative.
    const bool fits = length.is_number_unsigned()
                          ? length.get<uint64_t>() <= static_cast<uint64_t>(kMaxModelElems)
                          : length.is_number_integer();
    if (!fits) {
      return Wrong(fmt::format("has the length {}",
                               length.is_number() ? length.dump() : length.type_name()));
    }
    lengths.push_back(length.get<int64_t>());
  }
  return lengths;
}

StatusOr<ModelShapes> ModelOf(const Json& json) {
  ModelShapes model;
  const std::optional<std::string> name = TextMember(json, "name");
  if (!name) return Wrong("there is no text 'name'");
  model.name = *name;
  const Json* tensors = Member(json, "tensors");
  if (tensors == nullptr || !tensors->is_array()) return Wrong("there is no array 'tensors'");
  for (const Json& tensor : *tensors) {
    std::optional<std::string> tensor_name = TextMember(tensor, "name");
    if (!tensor_name) {
      return Wrong(fmt::format("tensor {} has no text 'name'", model.tensors.size()));
    }
    StatusOr<std::vector<int64_t>> lengths = LengthsOf(tensor);
    if (!lengths.ok()) {
      return Wrong(fmt::format("tensor '{}' {}", *tensor_name, lengths.status().detail().message));
    }
    model.tensors.push_back({std::move(*tensor_name), std::move(*lengths)});
  }
  GW_RETURN_IF_ERROR(CheckShapes(model));
  return model;
}

}  // namespace

StatusOr<ModelShapes> ParseShapes(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  StatusOr<ModelShapes> model =
      parsed.is_discarded() ? StatusOr<ModelShapes>(Wrong("this is no JSON")) : ModelOf(parsed);
  if (model.ok()) return model;
  return Status(model.status()).WithHint(kValidForm);
}

StatusOr<ModelShapes> ReadShapesFile(const std::string& path) {
  const StatusOr<std::string> text = ReadTextFrom(path);
  if (!text.ok()) return text.status();
  StatusOr<ModelShapes> model = ParseShapes(*text);
  if (model.ok()) return model;
  ErrorDetail detail = model.status().detail();
  detail.message = fmt::format("{}: {}", path, detail.message);
  return Status(model.status().code(), std::move(detail));
}

}  // namespace gradwire
