// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A parsed template. Nodes refer to each other by index; children come before their parents.
#ifndef HEDDLE_RUNTIME_TEXT_TEMPLATE_TEMPLATEPROGRAM_H
#define HEDDLE_RUNTIME_TEXT_TEMPLATE_TEMPLATEPROGRAM_H

#include "bytes/Text.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

enum class NodeKind : uint8_t {
  // Expressions. Children in order; `text` is a name, an operator or a string.
  String,
  Integer,
  Float,
  True,
  False,
  None,
  Name,
  Attribute, // (object) text
  Index,     // (object, key)
  Slice,     // (object, start, stop, step); Absent where nothing is written
  Call,      // (callee, arguments…)
  Filter,    // (value, arguments…) text
  Test,      // (value, arguments…) text
  Argument,  // (value) text: name=
  Not,
  Negate,
  Plus,
  Binary,  // (left, right) text
  Compare, // (left, right) text: == != < <= > >= in "not in"
  And,
  Or,
  Conditional, // (then, condition, else)
  List,
  Tuple,
  Dict, // (key, value, key, value, …)
  Absent,
  // Statements.
  Text,        // text
  Print,       // (value)
  Block,       // statements
  If,          // (condition, block, condition, block, …, [block])
  For,         // (Tuple of Names, sequence, condition or Absent, block, else block or Absent)
  Set,         // (targets…, value): Name or Attribute
  SetBlock,    // (target, block)
  Macro,       // (Parameter…, block) text
  Parameter,   // ([default]) text
  FilterBlock, // (Filter of Captured, block)
  Captured,    // what a FilterBlock holds
  Break,
  Continue,
};

struct TemplateNode {
  NodeKind kind;
  uint32_t line;  // where it begins
  uint32_t depth; // of the tree below, itself included
  std::string text;
  std::vector<int32_t> children;
  int64_t integer = 0;
  double number = 0;
};

struct TemplateProgram {
  std::vector<TemplateNode> nodes;
  int32_t root = -1;
};

// Fills `program`; false with a message that names the line.
bool parseTemplate(std::string_view source, TemplateProgram &program, std::string &error);

bool isTemplateFilter(std::string_view name);
bool isTemplateTest(std::string_view name);

// One line of bounded length, whatever the template's text that `what` quotes.
inline std::string templateError(uint32_t line, std::string what) {
  what.resize(wholeCharacters(what, 1024));
  for (char &c : what)
    if (static_cast<unsigned char>(c) < ' ')
      c = ' ';
  return "chat_template line " + std::to_string(line) + ": " + what;
}

} // namespace heddle

#endif
