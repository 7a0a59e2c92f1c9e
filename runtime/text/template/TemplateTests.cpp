// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/template/TemplateEvaluator.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <cmath>

namespace heddle {

static constexpr std::string_view testNames = " boolean callable defined divisibleby eq equalto even false float ge "
                                              "greaterthan gt in integer iterable le lessthan lower lt mapping ne "
                                              "none number odd sameas sequence string true undefined upper ";

bool isTemplateTest(std::string_view name) {
  return !name.empty() && testNames.find(" " + std::string(name) + " ") != std::string_view::npos;
}

// Whether there are letters with a case and all of them have this one.
static bool hasCase(const TemplateText &text, bool lower) {
  bool letters = false;
  for (size_t position = 0; position < text.bytes.size();) {
    char32_t c = nextCharacter(text.bytes, position);
    if (lower ? isUppercase(c) : isLowercase(c))
      return false;
    letters |= lower ? isLowercase(c) : isUppercase(c);
  }
  return letters;
}

bool TemplateEvaluator::test(const std::string &name, const TemplateValue &value, const TemplateArguments &arguments) {
  ValueKind kind = value.kind;
  if (name == "defined")
    return kind != ValueKind::Undefined;
  if (name == "undefined")
    return kind == ValueKind::Undefined;
  if (name == "none")
    return kind == ValueKind::None;
  if (name == "string")
    return kind == ValueKind::String;
  if (name == "boolean")
    return kind == ValueKind::Bool;
  if (name == "integer")
    return kind == ValueKind::Integer;
  if (name == "float")
    return kind == ValueKind::Float;
  if (name == "number")
    return isNumber(value);
  if (name == "true")
    return kind == ValueKind::Bool && value.boolean;
  if (name == "false")
    return kind == ValueKind::Bool && !value.boolean;
  if (name == "mapping")
    return kind == ValueKind::Dict && !value.isNamespace;
  if (name == "sequence" || name == "iterable")
    return kind == ValueKind::List || kind == ValueKind::String || (kind == ValueKind::Dict && !value.isNamespace) ||
           kind == ValueKind::Undefined;
  if (name == "callable")
    return kind == ValueKind::Macro || kind == ValueKind::Function || kind == ValueKind::Method;
  if (name == "lower" || name == "upper")
    return knowsLetters() && hasCase(toText(value), name == "lower");
  if (name == "odd" || name == "even") {
    if (!isNumber(value)) {
      fail("test '" + name + "' needs a number, not " + kindName(value));
      return false;
    }
    return (std::fmod(asNumber(value), 2) != 0) == (name == "odd");
  }
  const TemplateValue *other = arguments.get(0, name == "in" ? "seq" : name == "divisibleby" ? "num" : "other");
  if (!other) {
    fail("test '" + name + "' takes an argument");
    return false;
  }
  if (name == "in")
    return contains(*other, value);
  if (name == "eq" || name == "equalto")
    return equals(value, *other);
  if (name == "ne")
    return !equals(value, *other);
  if (name == "sameas")
    return kind == other->kind && equals(value, *other);
  if (name == "lt" || name == "lessthan")
    return less(value, *other);
  if (name == "gt" || name == "greaterthan")
    return less(*other, value);
  if (name == "le")
    return !less(*other, value);
  if (name == "ge")
    return !less(value, *other);
  TemplateValue remainder = arithmetic("%", value, *other); // divisibleby
  return !failed() && asNumber(remainder) == 0;
}

} // namespace heddle
