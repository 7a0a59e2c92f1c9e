// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The words of a template: text outside tags, with white space control applied, and tokens inside them.
#ifndef HEDDLE_RUNTIME_TEXT_TEMPLATE_TEMPLATELEXER_H
#define HEDDLE_RUNTIME_TEXT_TEMPLATE_TEMPLATELEXER_H

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

enum class TemplateTokenKind : uint8_t {
  Text,
  PrintBegin,
  PrintEnd,
  BlockBegin,
  BlockEnd,
  Name,
  String,
  Integer,
  Float,
  Operator,
  End
};

struct TemplateToken {
  TemplateTokenKind kind = TemplateTokenKind::End;
  std::string text;
  uint32_t line = 1;
};

class TemplateLexer {
public:
  // `source` has plain line feeds only and outlives the object.
  explicit TemplateLexer(std::string_view source) : source(source) {}
  // The next token; false with a message in `error`.
  bool next(TemplateToken &token, std::string &error);

private:
  bool nextOutside(TemplateToken &token, std::string &error);
  bool openTag(TemplateToken &token, std::string &error);
  bool nextInside(TemplateToken &token, std::string &error);
  bool closeTag(TemplateToken &token);
  bool skipComment(std::string &error);
  bool takeRaw(TemplateToken &token, std::string &error);
  bool takeString(TemplateToken &token, std::string &error);
  void takeNumber(TemplateToken &token);
  size_t trimmedEnd(size_t begin, size_t tag) const;
  void afterTag(char sign, bool isPrint);
  void advance(size_t count);

  std::string_view source;
  size_t at = 0;
  uint32_t line = 1;
  int brackets = 0; // open ( [ { inside a tag
  enum class Mode : uint8_t { Outside, Print, Block } mode = Mode::Outside;
};

} // namespace heddle

#endif
