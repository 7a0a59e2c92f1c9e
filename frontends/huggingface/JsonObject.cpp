// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/huggingface/JsonObject.h"
#include "frontends/Size.h"

namespace heddle {

using nlohmann::json;

static const json emptyObject = json::object();

JsonObject::JsonObject(const json &value, std::string file, std::string prefix)
    : value(value.is_object() ? value : emptyObject), path(std::move(file)), prefix(std::move(prefix)) {
  if (!value.is_object())
    fail((this->prefix.empty() ? "the JSON value" : this->prefix.substr(0, this->prefix.size() - 1)) + " is of type " +
         value.type_name() + ", expected an object");
}

const json *JsonObject::find(const char *key) const {
  auto found = value.find(key);
  return found == value.end() || found->is_null() ? nullptr : &*found;
}

void JsonObject::fail(const std::string &what) {
  if (!error)
    error = errorIn(path, what);
}

void JsonObject::adopt(const JsonObject &other) {
  if (!error)
    error = other.error;
}

// A JSON value as it may stand in a message.
static std::string shown(const json &value) {
  if (value.is_structured())
    return value.type_name();
  return "'" + printable(value.dump(-1, ' ', true, json::error_handler_t::replace), 64) + "'";
}

void JsonObject::wrongType(const char *key, const json &found, const char *expected) {
  fail(key, "is " + shown(found) + ", expected " + expected);
}

std::optional<int64_t> JsonObject::integer(const char *key) {
  const json *found = find(key);
  if (!found)
    return std::nullopt;
  if (!found->is_number_integer() || (found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX)) {
    wrongType(key, *found, "an integer");
    return std::nullopt;
  }
  return found->get<int64_t>();
}

std::optional<double> JsonObject::number(const char *key) {
  const json *found = find(key);
  if (!found)
    return std::nullopt;
  if (!found->is_number()) {
    wrongType(key, *found, "a number");
    return std::nullopt;
  }
  return found->get<double>();
}

std::optional<bool> JsonObject::boolean(const char *key) {
  const json *found = find(key);
  if (!found)
    return std::nullopt;
  if (!found->is_boolean()) {
    wrongType(key, *found, "true or false");
    return std::nullopt;
  }
  return found->get<bool>();
}

std::optional<std::string> JsonObject::string(const char *key) {
  const json *found = find(key);
  if (!found)
    return std::nullopt;
  if (!found->is_string()) {
    wrongType(key, *found, "a string");
    return std::nullopt;
  }
  return found->get<std::string>();
}

std::vector<double> JsonObject::numbers(const char *key) {
  std::vector<double> out;
  const json *found = find(key);
  if (found && !found->is_array())
    wrongType(key, *found, "an array of numbers");
  if (!found || !found->is_array())
    return out;
  for (const json &element : *found) {
    if (!element.is_number()) {
      wrongType(key, element, "numbers");
      return {};
    }
    out.push_back(element.get<double>());
  }
  return out;
}

std::vector<int64_t> JsonObject::integers(const char *key) {
  const json *found = find(key);
  if (!found)
    return {};
  if (!found->is_array()) {
    std::optional<int64_t> single = integer(key);
    return single ? std::vector<int64_t>{*single} : std::vector<int64_t>{};
  }
  std::vector<int64_t> out;
  for (const json &element : *found) {
    if (!element.is_number_integer() || (element.is_number_unsigned() && element.get<uint64_t>() > INT64_MAX)) {
      wrongType(key, element, "integers");
      return {};
    }
    out.push_back(element.get<int64_t>());
  }
  return out;
}

std::vector<std::string> JsonObject::strings(const char *key) {
  std::vector<std::string> out;
  const json *found = find(key);
  if (found && !found->is_array())
    wrongType(key, *found, "an array of strings");
  if (!found || !found->is_array())
    return out;
  for (const json &element : *found) {
    if (!element.is_string()) {
      wrongType(key, element, "strings");
      return {};
    }
    out.push_back(element.get<std::string>());
  }
  return out;
}

JsonObject JsonObject::object(const char *key) {
  const json *found = find(key);
  JsonObject nested(found ? *found : emptyObject, path, prefix + key + ".");
  adopt(nested);
  return nested;
}

} // namespace heddle
