// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Json.h"

#include "bytes/Text.h"
#include "bytes/Utf8.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace heddle {

static bool isSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
static bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

static int hexDigit(char c) {
  return isDigit(c) ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The four hexadecimal digits at `at`, or -1.
static int hexUnit(std::string_view text, size_t at) {
  int value = 0;
  for (size_t i = at; i < at + 4; ++i) {
    int digit = i < text.size() ? hexDigit(text[i]) : -1;
    if (digit < 0)
      return -1;
    value = value * 16 + digit;
  }
  return value;
}

namespace {

// Checks the grammar without recursion: `stack` remembers which brackets are open.
class Checker {
public:
  Checker(std::string_view text, std::string &error, JsonForm form) : text(text), error(error), form(form) {}

  bool check(size_t &begin, size_t &end) {
    skipSpace();
    begin = at;
    bool wantValue = true;
    do {
      if (wantValue ? !value(wantValue) : !afterValue(wantValue))
        return false;
      if (depth == 0 && !wantValue)
        end = at;
    } while (depth || wantValue);
    skipSpace();
    return at == text.size() || fail("text after the end of the JSON value");
  }
  size_t position() const { return at; }

private:
  bool fail(const std::string &what) {
    error = "not valid JSON: byte " + std::to_string(at) + ": " + what;
    return false;
  }
  bool failExpecting(const char *what) { return fail(std::string("expected ") + what + ", found " + shown()); }
  // What stands here, as a message shows it.
  std::string shown() const {
    return at < text.size() ? "'" + printable(text.substr(at, 1)) + "'" : "the end of the JSON text (truncated?)";
  }
  void skipSpace() {
    while (at < text.size() && isSpace(text[at]))
      ++at;
  }
  char peek() const { return at < text.size() ? text[at] : '\0'; }

  // Reads a value; `wantValue` stays true where an array or object opened and its first value follows.
  bool value(bool &wantValue) {
    skipSpace();
    char c = peek();
    if (c == '[' || c == '{') {
      if (depth == JsonValue::maxDepth)
        return fail("JSON nested deeper than " + std::to_string(JsonValue::maxDepth));
      stack[depth++] = c;
      ++at;
      skipSpace();
      if (peek() == (c == '[' ? ']' : '}')) {
        ++at;
        --depth;
        wantValue = false;
        return true;
      }
      return c == '[' || memberKey();
    }
    wantValue = false;
    if (c == '"')
      return string();
    if (takeOneOf({"true", "false", "null"}))
      return true;
    if (form == JsonForm::Python && takeOneOf({"Infinity", "-Infinity", "NaN"}))
      return true;
    if (c == '-' || isDigit(c))
      return number();
    if (at == text.size())
      return failExpecting("a value");
    return fail(utf8SequenceLength(text, at) ? "not a JSON value: '" + printable(text.substr(at, 8)) + "'"
                                             : "not UTF-8");
  }

  bool takeOneOf(std::initializer_list<std::string_view> words) {
    for (std::string_view word : words)
      if (text.substr(at, word.size()) == word) {
        at += word.size();
        return true;
      }
    return false;
  }

  bool afterValue(bool &wantValue) {
    skipSpace();
    char open = stack[depth - 1];
    if (peek() == ',') {
      ++at;
      wantValue = true;
      if (open == '[')
        return true;
      skipSpace();
      return memberKey();
    }
    if (peek() != (open == '[' ? ']' : '}'))
      return failExpecting(open == '[' ? "',' or ']'" : "',' or '}'");
    ++at;
    --depth;
    return true;
  }

  bool memberKey() {
    if (peek() != '"')
      return failExpecting("a key, a string");
    if (!string())
      return false;
    skipSpace();
    if (peek() != ':')
      return failExpecting("':'");
    ++at;
    return true;
  }

  bool string() {
    for (++at; at < text.size() && text[at] != '"';) {
      uint8_t c = text[at];
      if (c < 0x20)
        return fail("a control byte in a string");
      if (c == '\\') {
        if (!escape())
          return false;
        continue;
      }
      size_t length = c < 0x80 ? 1 : utf8SequenceLength(text, at);
      if (!length)
        return fail("a string that is not UTF-8");
      at += length;
    }
    if (at >= text.size())
      return fail("a string without end (truncated?)");
    ++at;
    return true;
  }

  bool escape() {
    char c = at + 1 < text.size() ? text[at + 1] : '\0';
    if (c != 'u') {
      if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos || !c)
        return fail("unknown escape '" + printable(text.substr(at + 1, 1)) + "'");
      at += 2;
      return true;
    }
    int unit = hexUnit(text, at + 2);
    if (unit < 0)
      return fail("\\u without four hexadecimal digits");
    bool high = unit >= 0xD800 && unit < 0xDC00;
    int low = high && text.substr(at + 6, 2) == "\\u" ? hexUnit(text, at + 8) : -1;
    if ((unit >= 0xDC00 && unit < 0xE000) || (high && (low < 0xDC00 || low > 0xDFFF)))
      return fail("a surrogate without its other half");
    at += high ? 12 : 6;
    return true;
  }

  bool number() {
    at += peek() == '-';
    size_t first = at;
    while (isDigit(peek()))
      ++at;
    if (at == first || (text[first] == '0' && at > first + 1))
      return fail("not a JSON number");
    if (peek() == '.') {
      size_t dot = at++;
      while (isDigit(peek()))
        ++at;
      if (at == dot + 1)
        return fail("not a JSON number");
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at;
      at += peek() == '+' || peek() == '-';
      if (!isDigit(peek()))
        return fail("not a JSON number");
      while (isDigit(peek()))
        ++at;
    }
    return true;
  }

  std::string_view text;
  std::string &error;
  const JsonForm form;
  size_t at = 0;
  int depth = 0;
  char stack[JsonValue::maxDepth];
};

} // namespace

JsonValue JsonValue::parse(std::string_view text, std::string &error, size_t *outAt, JsonForm form) {
  size_t begin = 0, end = 0;
  Checker checker(text, error, form);
  if (!checker.check(begin, end)) {
    if (outAt)
      *outAt = checker.position();
    return JsonValue();
  }
  return JsonValue(text.substr(begin, end - begin));
}

JsonKind JsonValue::kind() const {
  if (text.empty())
    return JsonKind::Absent;
  switch (text[0]) {
  case '{':
    return JsonKind::Object;
  case '[':
    return JsonKind::Array;
  case '"':
    return JsonKind::String;
  case 't':
  case 'f':
    return JsonKind::Bool;
  case 'n':
    return JsonKind::Null;
  default:
    return isDigit(text.back()) ? JsonKind::Number : JsonKind::NotFinite;
  }
}

// Bytes of the value that starts `text`, which was checked.
static size_t valueLength(std::string_view text) {
  size_t at = 0, depth = 0;
  do {
    char c = text[at];
    if (c == '"') {
      for (++at; text[at] != '"'; ++at)
        at += text[at] == '\\';
      ++at;
    } else if (c == '[' || c == '{') {
      ++depth, ++at;
    } else if (c == ']' || c == '}') {
      --depth, ++at;
    } else if (depth) {
      ++at;
    } else {
      while (at < text.size() && !isSpace(text[at]) && text[at] != ',' && text[at] != ']' && text[at] != '}')
        ++at;
    }
  } while (depth);
  return at;
}

std::string JsonValue::string() const {
  std::string out;
  if (!is(JsonKind::String))
    return out;
  std::string_view body = text.substr(1, text.size() - 2);
  size_t plain = body.find('\\');
  if (plain == std::string_view::npos)
    return std::string(body);
  for (size_t at = 0; at < body.size(); plain = body.find('\\', at)) {
    size_t stop = plain == std::string_view::npos ? body.size() : plain;
    out.append(body.substr(at, stop - at));
    at = stop;
    if (at == body.size())
      break;
    char c = body[at + 1];
    at += 2;
    if (c != 'u') {
      out += c == 'b' ? '\b' : c == 'f' ? '\f' : c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
      continue;
    }
    char32_t value = static_cast<char32_t>(hexUnit(body, at));
    at += 4;
    if (value >= 0xD800 && value < 0xDC00) {
      value = 0x10000 + ((value - 0xD800) << 10) + (static_cast<char32_t>(hexUnit(body, at + 2)) - 0xDC00);
      at += 6;
    }
    appendUtf8(value, out);
  }
  return out;
}

bool JsonValue::equals(std::string_view bytes) const {
  if (!is(JsonKind::String))
    return false;
  std::string_view body = text.substr(1, text.size() - 2);
  return body.find('\\') == std::string_view::npos ? body == bytes : string() == bytes;
}

bool JsonValue::integer(int64_t &out) const {
  if (!is(JsonKind::Number) || text.find_first_of(".eE") != std::string_view::npos)
    return false;
  bool negative = text[0] == '-';
  int64_t value = 0;
  for (char c : text.substr(negative))
    if (__builtin_mul_overflow(value, int64_t(10), &value) || __builtin_sub_overflow(value, int64_t(c - '0'), &value))
      return false;
  if (!negative && __builtin_sub_overflow(int64_t(0), value, &value))
    return false;
  out = value;
  return true;
}

bool JsonValue::natural(uint64_t &out) const {
  uint64_t value = 0;
  for (char c : text)
    if (!isDigit(c) || __builtin_mul_overflow(value, uint64_t(10), &value) ||
        __builtin_add_overflow(value, uint64_t(c - '0'), &value))
      return false;
  out = value;
  return !text.empty();
}

bool JsonValue::number(double &out) const {
  if (!is(JsonKind::Number))
    return false;
  out = strtod(std::string(text).c_str(), nullptr);
  return true;
}

JsonValue JsonValue::find(std::string_view key, bool *duplicate) const {
  JsonValue found;
  if (!is(JsonKind::Object))
    return found;
  for (JsonItems items(*this); items.next();) {
    if (!items.key.equals(key))
      continue;
    if (duplicate)
      *duplicate |= static_cast<bool>(found);
    found = items.value;
  }
  return found;
}

JsonItems::JsonItems(JsonValue container) {
  if (!container.is(JsonKind::Array) && !container.is(JsonKind::Object))
    return;
  isObject = container.is(JsonKind::Object);
  rest = container.text.substr(1, container.text.size() - 2);
}

bool JsonItems::next() {
  auto skip = [&] {
    while (!rest.empty() && (isSpace(rest[0]) || rest[0] == ',' || rest[0] == ':'))
      rest.remove_prefix(1);
  };
  auto take = [&] {
    size_t length = valueLength(rest);
    JsonValue value(rest.substr(0, length));
    rest.remove_prefix(length);
    skip();
    return value;
  };
  skip();
  if (rest.empty())
    return false;
  if (isObject)
    key = take();
  value = take();
  return true;
}

// Recursion is bounded by JsonValue::maxDepth.
bool isUnambiguousJson(JsonValue value, std::string &error) {
  double number = 0;
  if (value.number(number) && !std::isfinite(number)) {
    error = "a number is out of range: '" + printable(value.raw(), 64) + "'";
    return false;
  }
  std::vector<std::string> keys;
  for (JsonItems items(value); items.next();) {
    if (items.key)
      keys.push_back(items.key.string());
    if (!isUnambiguousJson(items.value, error))
      return false;
  }
  std::sort(keys.begin(), keys.end());
  auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice == keys.end())
    return true;
  error = "duplicate key '" + printable(*twice) + "'";
  return false;
}

// As \u and four hexadecimal digits, twice for a character beyond them.
static void appendEscaped(char32_t character, std::string &out) {
  char escape[16];
  if (character < 0x10000)
    snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(character));
  else
    snprintf(escape, sizeof escape, "\\u%04x\\u%04x", static_cast<unsigned>(0xD7C0 + (character >> 10)),
             static_cast<unsigned>(0xDC00 + (character & 0x3FF)));
  out += escape;
}

void appendJsonString(std::string_view text, std::string &out, bool ascii) {
  constexpr std::string_view letters = "\"\\nrt", meanings = "\"\\\n\r\t";
  out += '"';
  for (size_t at = 0; at < text.size();) {
    char c = text[at];
    size_t special = meanings.find(c);
    if (special != std::string_view::npos) {
      out += '\\';
      out += letters[special];
      ++at;
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
      appendEscaped(static_cast<char32_t>(c), out);
      ++at;
    } else if (ascii && static_cast<uint8_t>(c) >= 0x80) {
      bool isCharacter = utf8SequenceLength(text, at) != 0;
      appendEscaped(isCharacter ? nextCharacter(text, at) : 0xFFFD, out);
      at += !isCharacter;
    } else {
      out += c;
      ++at;
    }
  }
  out += '"';
}

std::string jsonString(std::string_view text, bool ascii) {
  std::string out;
  appendJsonString(text, out, ascii);
  return out;
}

std::string jsonNumber(double value) {
  if (!std::isfinite(value))
    return "null";
  if (value == std::floor(value) && std::fabs(value) < 1e15)
    return format("%.1f", value);
  for (int digits = 1; digits < 17; ++digits)
    if (std::string text = format("%.*g", digits, value); strtod(text.c_str(), nullptr) == value)
      return text;
  return format("%.17g", value);
}

} // namespace heddle
