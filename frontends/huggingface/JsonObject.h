// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Typed access to a JSON object of a config file. The first wrong type is kept, later reads give fallbacks: ask
// status() once.
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_JSONOBJECT_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_JSONOBJECT_H

#include "bytes/Json.h"
#include "bytes/Status.h"
#include "frontends/Json.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace heddle {

class JsonObject {
public:
  // `json` must outlast the object; `path` is that of its file.
  JsonObject(const JsonFile &json, std::string path);

  // Null counts as absent, as in Hugging Face's configs.
  bool has(const char *key) const { return static_cast<bool>(find(key)); }
  bool isNull(const char *key) const { return lookUp(key).is(JsonKind::Null); }
  // Absent for null.
  JsonValue find(const char *key) const;
  // Says that a key is known, though nothing reads its value.
  void pass(const char *key) const { lookUp(key); }
  // Whether somebody has asked for the key, of this object or of a copy.
  bool wasAsked(const char *key) const { return asked->count(key); }

  std::optional<int64_t> integer(const char *key);
  // `value`, the key's, or what stands for it, if it is within [least, most]; else fails and gives `least`.
  int64_t bounded(const char *key, int64_t value, int64_t least, int64_t most);
  std::optional<double> number(const char *key);
  std::optional<bool> boolean(const char *key);
  // Of a key that may be null, which the reference takes for false; `absent` without the key.
  bool flag(const char *key, bool absent) { return !isNull(key) && boolean(key).value_or(absent); }
  std::optional<std::string> string(const char *key);
  std::vector<double> numbers(const char *key);
  std::vector<int64_t> integers(const char *key); // also a single integer
  std::vector<std::string> strings(const char *key);
  // An object, empty if absent. Its failures are adopted by adopt().
  JsonObject object(const char *key);
  // This object; what it lacks, or has as null, `other` says, which is of the same file.
  JsonObject orElse(const JsonObject &other) const;

  void fail(const std::string &what, StatusCode code = StatusCode::InvalidInput);
  // Of a key's value, with the byte at which it lies.
  void fail(const char *key, const std::string &what, StatusCode code = StatusCode::InvalidInput);
  void unsupported(const char *key, const std::string &what) { fail(key, what, StatusCode::Unsupported); }
  void adopt(const JsonObject &other);
  const Status &status() const { return error; }
  const std::string &file() const { return path; }
  // "rope_scaling." for a nested object.
  const std::string &keyPrefix() const { return prefix; }
  // The byte in the file of each value that was looked at in this object, and in those within; their keys begin with their prefixes. Of made JSON that of
  // what a value was made of.
  const std::map<std::string, uint64_t> &offsets() const { return *places; }
  // That of a key's value, which is there.
  uint64_t offsetOf(const char *key) const { return offsetOf(lookUp(key)); }

private:
  // `prefix` stands before keys in messages: "rope_scaling.".
  JsonObject(JsonValue value, const JsonObject &outer, std::string prefix);
  void checkKind();
  JsonValue lookUp(const char *key) const;
  bool lacks(const char *key) const;
  const JsonOrigin *originOf(const std::string &name) const;
  uint64_t offsetOf(JsonValue of) const { return static_cast<uint64_t>(of.raw().data() - text); }
  void wrongType(const char *key, JsonValue found, const char *expected);
  // The elements of an array that `read` takes; none, and a failure, if it takes not all.
  template <typename T, typename Read> std::vector<T> list(const char *key, const char *expected, Read read);

  JsonValue value;  // an object, or Absent
  const char *text; // of the file
  std::string path, prefix;
  std::shared_ptr<const JsonOrigins> origins;
  std::shared_ptr<const JsonObject> other; // of orElse()
  std::shared_ptr<std::set<std::string>> asked = std::make_shared<std::set<std::string>>();
  std::shared_ptr<std::map<std::string, uint64_t>> places = std::make_shared<std::map<std::string, uint64_t>>();
  Status error;
};

} // namespace heddle

#endif
