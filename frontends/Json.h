// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JSON from files that are not trusted. JsonScanner walks text in place and allocates nothing, for tables of any size;
// parseJson builds objects, after a scan has bounded depth and size and refused duplicate keys.
#ifndef HEDDLE_FRONTENDS_JSON_H
#define HEDDLE_FRONTENDS_JSON_H

#include "frontends/Expected.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace heddle {

// Strict RFC 8259 over UTF-8 that the caller has checked. Every method returns false once an error is met; the first one sticks.
//
//   bool first = true;
//   scanner.open('{');
//   while (scanner.member(first, key)) scanner.skip();
//   if (!scanner.finish()) … scanner.error()
class JsonScanner {
public:
  static constexpr unsigned maxDepth = 64;

  // `uniqueKeys` makes skip() refuse objects with duplicate keys; it then allocates, so bound the text first.
  explicit JsonScanner(std::string_view text, bool uniqueKeys = false) : text(text), uniqueKeys(uniqueKeys) {}

  char peek();                                  // the next character that is not a space, 0 at the end
  bool open(char bracket);                      // consumes '{' or '['
  bool element(bool &first);                    // true before each element of an array, false after its ']'
  bool member(bool &first, std::string &key);   // true after each key and ':' of an object, false after its '}'
  bool string(std::string &out);                // decodes escapes
  bool natural(uint64_t &out);                  // an integer from 0 to 2^64 - 1, spelled without sign, fraction or exponent
  bool skip();                                  // any value
  bool finish();                                // nothing but spaces is left, and no error was met
  bool fail(const std::string &what);

  bool failed() const { return !message.empty(); }
  const std::string &error() const { return message; } // "byte N: …"
  size_t position() const { return at; }

private:
  bool separator(char close, bool &first);
  bool escape(std::string *out);
  bool hexadecimal(uint32_t &out);
  bool skipString(std::string *out);
  bool skipNumber();
  bool skipLiteral(std::string_view word);
  bool skipContainer(char bracket);

  std::string_view text;
  size_t at = 0;
  unsigned depth = 0;
  bool uniqueKeys;
  std::string message;
};

// Parses the JSON file at `path`, of at most `maxBytes`. Errors name the file and, where there is one, the byte.
Expected<nlohmann::json> parseJsonFile(const std::string &path, size_t maxBytes);

} // namespace heddle

#endif
