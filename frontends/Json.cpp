// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/Json.h"
#include "frontends/Checkpoint.h"
#include "frontends/Size.h"

#include <algorithm>

namespace heddle {

bool JsonScanner::fail(const std::string &what) {
  if (message.empty())
    message = "byte " + std::to_string(at) + ": " + what;
  return false;
}

char JsonScanner::peek() {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r'))
    ++at;
  return at < text.size() ? text[at] : '\0';
}

static std::string shown(char c) {
  return c ? "'" + printable({&c, 1}) + "'" : "the end of the JSON text (truncated?)";
}

bool JsonScanner::open(char bracket) {
  if (failed())
    return false;
  char next = peek();
  if (next != bracket)
    return fail(std::string("expected ") + (bracket == '{' ? "an object '{'" : "an array '['") + ", found " +
                shown(next));
  if (depth == maxDepth)
    return fail("JSON nested deeper than " + std::to_string(maxDepth));
  ++depth;
  ++at;
  return true;
}

bool JsonScanner::separator(char close, bool &first) {
  if (failed())
    return false;
  char next = peek();
  if (next == close) {
    ++at;
    --depth;
    return false;
  }
  if (!first) {
    if (next != ',')
      return fail(std::string("expected ',' or '") + close + "', found " + shown(next));
    ++at;
  }
  first = false;
  return true;
}

bool JsonScanner::element(bool &first) {
  return separator(']', first);
}

bool JsonScanner::member(bool &first, std::string &key) {
  if (!separator('}', first) || !string(key))
    return false;
  if (char next = peek(); next != ':')
    return fail("expected ':', found " + shown(next));
  ++at;
  return true;
}

bool JsonScanner::hexadecimal(uint32_t &out) {
  if (text.size() - at < 4)
    return fail("truncated \\u escape");
  out = 0;
  for (int i = 0; i < 4; ++i, ++at) {
    char c = text[at];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0)
      return fail("bad \\u escape");
    out = out << 4 | static_cast<uint32_t>(digit);
  }
  return true;
}

static void appendUtf8(uint32_t code, std::string &out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  int extra = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  out += static_cast<char>((0xff00 >> (extra + 1) & 0xff) | code >> (6 * extra));
  while (extra--)
    out += static_cast<char>(0x80 | (code >> (6 * extra) & 0x3f));
}

// After a backslash.
bool JsonScanner::escape(std::string *out) {
  if (at == text.size())
    return fail("truncated escape");
  char c = text[at++];
  if (c != 'u') {
    static constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    size_t which = letters.find(c);
    if (which == std::string_view::npos)
      return fail("unknown escape " + shown(c));
    if (out)
      *out += meanings[which];
    return true;
  }
  uint32_t code, low;
  if (!hexadecimal(code))
    return false;
  if (code >= 0xd800 && code < 0xdc00) {
    if (text.substr(at, 2) != "\\u")
      return fail("a high surrogate without its low one");
    at += 2;
    if (!hexadecimal(low))
      return false;
    if (low < 0xdc00 || low > 0xdfff)
      return fail("a high surrogate without its low one");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xdc00 && code < 0xe000) {
    return fail("a low surrogate alone");
  }
  if (out)
    appendUtf8(code, *out);
  return true;
}

bool JsonScanner::skipString(std::string *out) {
  if (failed())
    return false;
  if (char next = peek(); next != '"')
    return fail("expected a string, found " + shown(next));
  ++at;
  for (;;) {
    size_t start = at;
    while (at < text.size() && text[at] != '"' && text[at] != '\\' && static_cast<unsigned char>(text[at]) >= 0x20)
      ++at;
    if (out)
      out->append(text.substr(start, at - start));
    if (at == text.size())
      return fail("a string without end (truncated?)");
    char c = text[at++];
    if (c == '"')
      return true;
    if (c != '\\')
      return fail("control byte in a string");
    if (!escape(out))
      return false;
  }
}

bool JsonScanner::string(std::string &out) {
  out.clear();
  return skipString(&out);
}

bool JsonScanner::natural(uint64_t &out) {
  if (failed())
    return false;
  peek();
  size_t start = at;
  Size value(0);
  while (at < text.size() && text[at] >= '0' && text[at] <= '9')
    value = value * 10 + static_cast<uint64_t>(text[at++] - '0');
  bool leadingZero = at - start > 1 && text[start] == '0';
  bool more = at < text.size() && (text[at] == '.' || text[at] == 'e' || text[at] == 'E');
  if (at == start || leadingZero || more || !value.valid()) {
    at = start;
    return fail("expected a non-negative integer below 2^64, found '" +
                printable(text.substr(start, text.substr(start).find_first_of(",]} \n")), 24) + "'");
  }
  out = value.value();
  return true;
}

bool JsonScanner::skipNumber() {
  auto digits = [&] {
    size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9')
      ++at;
    return at > start;
  };
  if (text[at] == '-')
    ++at;
  size_t start = at;
  if (!digits() || (at - start > 1 && text[start] == '0'))
    return fail("not a JSON number");
  if (at < text.size() && text[at] == '.' && (++at, !digits()))
    return fail("not a JSON number");
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-'))
      ++at;
    if (!digits())
      return fail("not a JSON number");
  }
  return true;
}

bool JsonScanner::skipLiteral(std::string_view word) {
  if (text.substr(at, word.size()) != word)
    return fail("not a JSON value: '" + printable(text.substr(at, 8)) + "'");
  at += word.size();
  return true;
}

// Recursion is bounded by maxDepth.
bool JsonScanner::skipContainer(char bracket) {
  bool first = true;
  if (!open(bracket))
    return false;
  if (bracket == '[') {
    while (element(first))
      if (!skip())
        return false;
    return !failed();
  }
  std::vector<std::string> keys;
  std::string key;
  while (member(first, key)) {
    if (uniqueKeys)
      keys.push_back(key);
    if (!skip())
      return false;
  }
  std::sort(keys.begin(), keys.end());
  auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end())
    return fail("duplicate key '" + printable(*twice) + "'");
  return !failed();
}

bool JsonScanner::skip() {
  if (failed())
    return false;
  char next = peek();
  switch (next) {
  case '{':
  case '[':
    return skipContainer(next);
  case '"':
    return skipString(nullptr);
  case 't':
    return skipLiteral("true");
  case 'f':
    return skipLiteral("false");
  case 'n':
    return skipLiteral("null");
  default:
    break;
  }
  if (next == '-' || (next >= '0' && next <= '9'))
    return skipNumber();
  return next ? skipLiteral("a JSON value") : fail("expected a value, found " + shown(next));
}

bool JsonScanner::finish() {
  if (failed())
    return false;
  return peek() == '\0' && at == text.size() ? true : fail("text after the end of the JSON value");
}

Expected<nlohmann::json> parseJsonFile(const std::string &path, size_t maxBytes) {
  Expected<std::shared_ptr<MappedFile>> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  std::string_view text(reinterpret_cast<const char *>((*file)->data()), (*file)->size());
  if (text.size() > maxBytes)
    return errorIn(path,
                   std::to_string(text.size()) + " bytes of JSON, at most " + std::to_string(maxBytes) + " are read");
  if (!isUtf8(text))
    return errorIn(path, "not valid JSON: not UTF-8");
  JsonScanner scanner(text, true);
  scanner.skip();
  if (!scanner.finish())
    return errorIn(path, "not valid JSON: " + scanner.error());
  nlohmann::json value = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (value.is_discarded())
    return errorIn(path, "not valid JSON: a number is out of range");
  return value;
}

} // namespace heddle
