// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

static const char *kindName(JsonKind kind) {
  static const char *const names[] = {"absent", "null",  "boolean", "number",
                                      "string", "array", "object",  "number that is not finite"};
  return names[static_cast<size_t>(kind)];
}

JsonObject::JsonObject(const JsonFile &json, std::string path)
    : value(json.root), text(json.file->text().data()), path(std::move(path)), origins(json.origins) {
  checkKind();
}

JsonObject::JsonObject(JsonValue value, const JsonObject &outer, std::string prefix)
    : value(value), text(outer.text), path(outer.path), prefix(std::move(prefix)), origins(outer.origins),
      places(outer.places) {
  checkKind();
}

void JsonObject::checkKind() {
  if (!value || value.is(JsonKind::Object))
    return;
  error = errorIn(path, (prefix.empty() ? "the JSON value" : prefix.substr(0, prefix.size() - 1)) + " is of type " +
                            kindName(value.kind()) + ", expected an object")
              .atByte(offsetOf(value));
}

bool JsonObject::lacks(const char *key) const {
  JsonValue found = value.find(key);
  return !found || found.is(JsonKind::Null);
}

// Of the value, or of the nearest object around it that was made of one.
const JsonOrigin *JsonObject::originOf(const std::string &name) const {
  for (std::string of = origins ? name : ""; !of.empty(); of.resize(of.find('.') == of.npos ? 0 : of.rfind('.')))
    if (auto found = origins->find(of); found != origins->end())
      return &found->second;
  return nullptr;
}

JsonValue JsonObject::lookUp(const char *key) const {
  asked->insert(key);
  if (other && lacks(key))
    return other->lookUp(key);
  JsonValue found = value.find(key);
  const JsonOrigin *origin = originOf(prefix + key);
  if (found && (origin || !origins))
    (*places)[prefix + key] = origin ? origin->offset : offsetOf(found);
  return found;
}

JsonObject JsonObject::orElse(const JsonObject &other) const {
  JsonObject both = *this;
  both.other = std::make_shared<JsonObject>(other);
  return both;
}

JsonValue JsonObject::find(const char *key) const {
  JsonValue found = lookUp(key);
  return found.is(JsonKind::Null) ? JsonValue() : found;
}

void JsonObject::fail(const std::string &what, StatusCode code) {
  if (error.isOk())
    error = errorIn(path, what).as(code);
}

int64_t JsonObject::bounded(const char *key, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most)
    return value;
  fail(key, "is " + std::to_string(value) + ", expected " + std::to_string(least) + " to " + std::to_string(most));
  return least;
}

void JsonObject::fail(const char *key, const std::string &what, StatusCode code) {
  if (!error.isOk())
    return;
  JsonValue found = lookUp(key);
  std::string name = (other && lacks(key) ? other->prefix : prefix) + key;
  const JsonOrigin *origin = originOf(name);
  error = errorIn(path, (origin ? origin->name : name) + " " + what).as(code);
  if (found && (origin || !origins))
    error = std::move(error).atByte(origin ? origin->offset : offsetOf(found));
}

void JsonObject::adopt(const JsonObject &other) {
  if (error.isOk())
    error = other.error;
}

void JsonObject::wrongType(const char *key, JsonValue found, const char *expected) {
  bool isContainer = found.is(JsonKind::Array) || found.is(JsonKind::Object);
  fail(key, "is " + (isContainer ? kindName(found.kind()) : "'" + printable(found.raw(), 64) + "'") + ", expected " +
                expected);
}

std::optional<int64_t> JsonObject::integer(const char *key) {
  JsonValue found = find(key);
  int64_t number;
  if (found.integer(number))
    return number;
  if (found)
    wrongType(key, found, "an integer");
  return std::nullopt;
}

std::optional<double> JsonObject::number(const char *key) {
  JsonValue found = find(key);
  double number;
  if (found.number(number))
    return number;
  if (found)
    wrongType(key, found, "a number");
  return std::nullopt;
}

std::optional<bool> JsonObject::boolean(const char *key) {
  JsonValue found = find(key);
  if (found.is(JsonKind::Bool))
    return found.isTrue();
  if (found)
    wrongType(key, found, "true or false");
  return std::nullopt;
}

std::optional<std::string> JsonObject::string(const char *key) {
  JsonValue found = find(key);
  if (found.is(JsonKind::String))
    return found.string();
  if (found)
    wrongType(key, found, "a string");
  return std::nullopt;
}

template <typename T, typename Read> std::vector<T> JsonObject::list(const char *key, const char *expected, Read read) {
  std::vector<T> out;
  JsonValue found = find(key);
  if (found && !found.is(JsonKind::Array))
    wrongType(key, found, (std::string("an array of ") + expected).c_str());
  if (!found.is(JsonKind::Array))
    return out;
  for (JsonItems items(found); items.next();)
    if (!read(items.value, out.emplace_back())) {
      wrongType(key, items.value, expected);
      return {};
    }
  return out;
}

std::vector<double> JsonObject::numbers(const char *key) {
  return list<double>(key, "numbers", [](JsonValue element, double &out) { return element.number(out); });
}

std::vector<int64_t> JsonObject::integers(const char *key) {
  if (has(key) && !find(key).is(JsonKind::Array)) {
    std::optional<int64_t> single = integer(key);
    return single ? std::vector<int64_t>{*single} : std::vector<int64_t>{};
  }
  return list<int64_t>(key, "integers", [](JsonValue element, int64_t &out) { return element.integer(out); });
}

std::vector<std::string> JsonObject::strings(const char *key) {
  return list<std::string>(key, "strings", [](JsonValue element, std::string &out) {
    out = element.string();
    return element.is(JsonKind::String);
  });
}

JsonObject JsonObject::object(const char *key) {
  JsonObject nested(find(key), *this, prefix + key + ".");
  adopt(nested);
  return nested;
}

} // namespace heddle
