// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JSON as views into its text: one pass checks the grammar (RFC 8259), depth and UTF-8 and allocates nothing, after which values are
// walked where they lie. A file of millions of values costs no object for any of them.
#ifndef HEDDLE_BYTES_JSON_H
#define HEDDLE_BYTES_JSON_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

// NotFinite: Infinity, -Infinity or NaN, which are no numbers of JSON.
enum class JsonKind : uint8_t { Absent, Null, Bool, Number, String, Array, Object, NotFinite };

// What texts may hold: JSON, or with it the words that Python's json writes for numbers that are not finite.
enum class JsonForm : uint8_t { Standard, Python };

// One value of a checked text.
class JsonValue {
public:
  static constexpr int maxDepth = 64;

  JsonValue() = default;
  // Checks `text` and gives its value; Absent, with "not valid JSON: byte N: REASON" in `error`, if it is not JSON. N alone is in
  // `outAt`.
  static JsonValue parse(std::string_view text, std::string &error, size_t *outAt = nullptr,
                         JsonForm form = JsonForm::Standard);

  JsonKind kind() const;
  bool is(JsonKind wanted) const { return kind() == wanted; }
  explicit operator bool() const { return kind() != JsonKind::Absent; }
  std::string_view raw() const { return text; }

  bool isTrue() const { return text == "true"; }
  // A string with its escapes resolved; empty for other kinds.
  std::string string() const;
  // Whether this is a string of exactly these bytes.
  bool equals(std::string_view bytes) const;
  // A number without fraction or exponent that fits.
  bool integer(int64_t &out) const;
  // A number from 0 to 2^64 - 1, spelled without sign, fraction and exponent.
  bool natural(uint64_t &out) const;
  // Any number; those beyond a double become infinite.
  bool number(double &out) const;

  // The member `key` of an object, Absent if there is none. `duplicate` is set if there are several.
  JsonValue find(std::string_view key, bool *duplicate = nullptr) const;

private:
  friend class JsonItems;
  explicit JsonValue(std::string_view text) : text(text) {}
  std::string_view text; // exactly the value's bytes
};

// Walks the elements of an array or the members of an object; nothing for other kinds.
class JsonItems {
public:
  explicit JsonItems(JsonValue container);
  bool next();
  JsonValue key, value;

private:
  std::string_view rest;
  bool isObject = false;
};

// False, with the reason in `error`, where an object in `value` has a key twice or a number does not fit a double: what readers take in
// different ways. It builds a list of the keys of an object: the caller bounds the size of the text.
bool isUnambiguousJson(JsonValue value, std::string &error);

// Appends `text` (UTF-8) as a JSON string, quotes included. Control characters and quotes are escaped; with `ascii`, so is everything
// outside ASCII, and what is not UTF-8 becomes U+FFFD.
void appendJsonString(std::string_view text, std::string &out, bool ascii = false);
std::string jsonString(std::string_view text, bool ascii = false);

// The shortest decimal number that reads back as `value`; null, as JSON has no other, for what is not finite.
std::string jsonNumber(double value);

} // namespace heddle

#endif
