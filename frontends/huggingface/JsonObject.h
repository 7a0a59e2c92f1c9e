// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Typed access to a JSON object of a config file. The first wrong type is kept, later reads give fallbacks: ask failure() once.
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_JSONOBJECT_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_JSONOBJECT_H

#include "frontends/Expected.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

class JsonObject {
public:
  // `prefix` stands before keys in messages: "rope_scaling.".
  JsonObject(const nlohmann::json &value, std::string file, std::string prefix = "");

  // Null counts as absent, as in Hugging Face's configs.
  bool has(const char *key) const { return find(key) != nullptr; }
  bool isNull(const char *key) const { return value.contains(key) && value[key].is_null(); }
  const nlohmann::json *find(const char *key) const;

  std::optional<int64_t> integer(const char *key);
  std::optional<double> number(const char *key);
  std::optional<bool> boolean(const char *key);
  std::optional<std::string> string(const char *key);
  std::vector<double> numbers(const char *key);
  std::vector<int64_t> integers(const char *key); // also a single integer
  std::vector<std::string> strings(const char *key);
  // An object, empty if absent. Its failures are adopted by adopt().
  JsonObject object(const char *key);

  void fail(const std::string &what);
  void fail(const char *key, const std::string &what) { fail(prefix + key + " " + what); }
  void adopt(const JsonObject &other);
  const std::optional<Error> &failure() const { return error; }
  const std::string &file() const { return path; }
  // "rope_scaling." for a nested object.
  const std::string &keyPrefix() const { return prefix; }

private:
  void wrongType(const char *key, const nlohmann::json &found, const char *expected);

  const nlohmann::json &value;
  std::string path, prefix;
  std::optional<Error> error;
};

} // namespace heddle

#endif
