// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/template/TemplateLexer.h"
#include "runtime/text/tokenizer/Unicode.h"

namespace heddle {

static bool isSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}
static bool isNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

void TemplateLexer::advance(size_t count) {
  for (size_t i = 0; i < count && at < source.size(); ++i)
    line += source[at++] == '\n';
}

bool TemplateLexer::next(TemplateToken &token, std::string &error) {
  token.text.clear();
  return mode == Mode::Outside ? nextOutside(token, error) : nextInside(token, error);
}

// Where the text before the tag at `tag` ends: "-" takes all white space, a block or comment alone on its line the blanks before it.
size_t TemplateLexer::trimmedEnd(size_t begin, size_t tag) const {
  char sign = tag + 2 < source.size() ? source[tag + 2] : '\0';
  size_t end = tag;
  if (sign == '-') {
    while (end > begin && isSpace(source[end - 1]))
      --end;
    return end;
  }
  if (sign == '+' || source[tag + 1] == '{')
    return tag;
  while (end > begin && (source[end - 1] == ' ' || source[end - 1] == '\t'))
    --end;
  bool lineStart = end == 0 || source[end - 1] == '\n';
  return lineStart ? end : tag;
}

// What follows a tag: "-" takes all white space, a block or comment one line feed unless "+" keeps it.
void TemplateLexer::afterTag(char sign, bool isPrint) {
  if (sign == '-')
    while (at < source.size() && isSpace(source[at]))
      advance(1);
  else if (sign != '+' && !isPrint && at < source.size() && source[at] == '\n')
    advance(1);
}

bool TemplateLexer::skipComment(std::string &error) {
  size_t end = source.find("#}", at + 2);
  if (end == std::string_view::npos) {
    error = "a comment without its closing '#}'";
    return false;
  }
  char sign = end > at + 2 ? source[end - 1] : '\0';
  advance(end + 2 - at);
  afterTag(sign == '-' || sign == '+' ? sign : '\0', false);
  return true;
}

// Text between {% raw %} and {% endraw %}; `at` is behind the opening tag's words "raw".
bool TemplateLexer::takeRaw(TemplateToken &token, std::string &error) {
  for (size_t tag = at; (tag = source.find("{%", tag)) != std::string_view::npos; tag += 2) {
    size_t word = tag + 2;
    while (word < source.size() && (isSpace(source[word]) || source[word] == '-' || source[word] == '+'))
      ++word;
    if (source.substr(word, 6) != "endraw")
      continue;
    word += 6;
    while (word < source.size() && isSpace(source[word]))
      ++word;
    char sign = word < source.size() && (source[word] == '-' || source[word] == '+') ? source[word++] : '\0';
    if (source.substr(word, 2) != "%}")
      continue;
    token.kind = TemplateTokenKind::Text;
    token.line = line;
    token.text = source.substr(at, trimmedEnd(at, tag) - at);
    advance(word + 2 - at);
    afterTag(sign, false);
    return true;
  }
  error = "a raw block without its endraw";
  return false;
}

bool TemplateLexer::nextOutside(TemplateToken &token, std::string &error) {
  for (;;) {
    token.line = line;
    size_t tag = at;
    for (; tag + 1 < source.size(); ++tag)
      if (source[tag] == '{' && (source[tag + 1] == '{' || source[tag + 1] == '%' || source[tag + 1] == '#'))
        break;
    if (tag + 1 >= source.size())
      tag = source.size();
    if (tag == source.size()) {
      token.kind = at < tag ? TemplateTokenKind::Text : TemplateTokenKind::End;
      token.text = source.substr(at);
      advance(tag - at);
      return true;
    }
    if (tag > at) {
      size_t end = trimmedEnd(at, tag);
      token.kind = TemplateTokenKind::Text;
      token.text = source.substr(at, end - at);
      advance(tag - at);
      if (!token.text.empty())
        return true;
    }
    token.line = line;
    if (source[at + 1] != '#')
      return openTag(token, error);
    if (!skipComment(error))
      return false;
  }
}

// The begin of the expression or block that opens here, or the text of a raw block.
bool TemplateLexer::openTag(TemplateToken &token, std::string &error) {
  bool isPrint = source[at + 1] == '{';
  advance(2);
  if (at < source.size() && (source[at] == '-' || source[at] == '+'))
    advance(1);
  if (!isPrint) {
    size_t word = at;
    while (word < source.size() && isSpace(source[word]))
      ++word;
    if (source.substr(word, 3) == "raw" &&
        (word + 3 >= source.size() || !(isNameStart(source[word + 3]) || isDigit(source[word + 3])))) {
      size_t close = source.find("%}", word);
      if (close == std::string_view::npos) {
        error = "a block without its closing '%}'";
        return false;
      }
      char sign = source[close - 1];
      advance(close + 2 - at);
      afterTag(sign == '-' || sign == '+' ? sign : '\0', false);
      return takeRaw(token, error);
    }
  }
  mode = isPrint ? Mode::Print : Mode::Block;
  brackets = 0;
  token.kind = isPrint ? TemplateTokenKind::PrintBegin : TemplateTokenKind::BlockBegin;
  return true;
}

// The end of the tag, if it stands here. A "}}" that closes dictionaries does not end a tag.
bool TemplateLexer::closeTag(TemplateToken &token) {
  char sign = source[at];
  size_t skip = sign == '-' || sign == '+' ? 1 : 0;
  bool isPrint = mode == Mode::Print;
  if (source.substr(at + skip, 2) != (isPrint ? "}}" : "%}") || (isPrint && brackets))
    return false;
  advance(skip + 2);
  afterTag(skip ? sign : '\0', isPrint);
  token.kind = isPrint ? TemplateTokenKind::PrintEnd : TemplateTokenKind::BlockEnd;
  mode = Mode::Outside;
  return true;
}

bool TemplateLexer::takeString(TemplateToken &token, std::string &error) {
  char quote = source[at];
  advance(1);
  token.kind = TemplateTokenKind::String;
  while (at < source.size() && source[at] != quote) {
    char c = source[at];
    advance(1);
    if (c != '\\' || at >= source.size()) {
      token.text += c;
      continue;
    }
    char escape = source[at];
    advance(1);
    size_t digits = escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
    if (digits) {
      uint32_t value = 0;
      for (size_t i = 0; i < digits; ++i, advance(1)) {
        char d = at < source.size() ? source[at] : '\0';
        int digit = isDigit(d)             ? d - '0'
                    : d >= 'a' && d <= 'f' ? d - 'a' + 10
                    : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                           : -1;
        if (digit < 0 || value > 0x10FFFF) {
          error = "a malformed \\x or \\u escape in a string";
          return false;
        }
        value = value * 16 + static_cast<uint32_t>(digit);
      }
      if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
        error = "an escape in a string that is not a character";
        return false;
      }
      appendUtf8(value, token.text);
      continue;
    }
    static constexpr std::string_view names = "ntrabfv0\\'\"", values("\n\t\r\a\b\f\v\0\\'\"", 11);
    size_t index = names.find(escape);
    if (index != std::string_view::npos)
      token.text += values[index];
    else if (escape != '\n')
      (token.text += '\\') += escape;
  }
  if (at >= source.size()) {
    error = "a string without its closing quote";
    return false;
  }
  advance(1);
  return true;
}

void TemplateLexer::takeNumber(TemplateToken &token) {
  token.kind = TemplateTokenKind::Integer;
  auto digits = [&] {
    for (; at < source.size() && (isDigit(source[at]) || source[at] == '_'); advance(1))
      if (source[at] != '_')
        token.text += source[at];
  };
  digits();
  if (at + 1 < source.size() && source[at] == '.' && isDigit(source[at + 1])) {
    token.kind = TemplateTokenKind::Float;
    token.text += '.';
    advance(1);
    digits();
  }
  size_t sign = at + 1 < source.size() && (source[at + 1] == '+' || source[at + 1] == '-') ? 1 : 0;
  if (at + 1 + sign < source.size() && (source[at] == 'e' || source[at] == 'E') && isDigit(source[at + 1 + sign])) {
    token.kind = TemplateTokenKind::Float;
    token.text.append(source.substr(at, 1 + sign));
    advance(1 + sign);
    digits();
  }
}

bool TemplateLexer::nextInside(TemplateToken &token, std::string &error) {
  while (at < source.size() && isSpace(source[at]))
    advance(1);
  token.line = line;
  if (at >= source.size()) {
    error = mode == Mode::Print ? "unexpected end: an expression without its closing '}}'"
                                : "unexpected end: a block without its closing '%}'";
    return false;
  }
  if (closeTag(token))
    return true;
  char c = source[at];
  if (isNameStart(c)) {
    token.kind = TemplateTokenKind::Name;
    for (; at < source.size() && (isNameStart(source[at]) || isDigit(source[at])); advance(1))
      token.text += source[at];
    return true;
  }
  if (isDigit(c)) {
    takeNumber(token);
    return true;
  }
  if (c == '"' || c == '\'')
    return takeString(token, error);
  token.kind = TemplateTokenKind::Operator;
  for (std::string_view two : {"==", "!=", "<=", ">=", "//", "**"})
    if (source.substr(at, 2) == two) {
      token.text = two;
      advance(2);
      return true;
    }
  if (std::string_view("+-*/%~<>=()[]{},.:|").find(c) == std::string_view::npos) {
    error = "an unexpected character in a tag";
    return false;
  }
  brackets += c == '(' || c == '[' || c == '{';
  brackets -= c == ')' || c == ']' || c == '}';
  token.text = c;
  advance(1);
  return true;
}

} // namespace heddle
