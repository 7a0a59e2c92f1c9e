// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values as text: Python's str and repr, and json.dumps.
#include "runtime/text/template/TemplateEvaluator.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace heddle {

// The shortest decimal that reads back as the same double, as Python prints it.
static std::string formatFloat(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  char digits[40];
  for (int precision = 1; precision <= 17; ++precision) {
    snprintf(digits, sizeof digits, "%.*e", precision - 1, value);
    if (strtod(digits, nullptr) == value)
      break;
  }
  std::string text = digits;
  size_t e = text.find('e');
  int exponent = atoi(text.c_str() + e + 1);
  std::string mantissa;
  for (char c : text.substr(0, e))
    if (c >= '0' && c <= '9')
      mantissa += c;
  std::string sign = text[0] == '-' ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    std::string tail = mantissa.substr(1);
    return sign + mantissa[0] + (tail.empty() ? "" : "." + tail) + (exponent < 0 ? "e-" : "e+") +
           (std::abs(exponent) < 10 ? "0" : "") + std::to_string(std::abs(exponent));
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + mantissa;
  size_t point = static_cast<size_t>(exponent) + 1;
  if (mantissa.size() <= point)
    return sign + mantissa + std::string(point - mantissa.size(), '0') + ".0";
  return sign + mantissa.substr(0, point) + "." + mantissa.substr(point);
}

// Python's repr of a string: single quotes unless only they occur in it.
static void appendQuoted(const TemplateText &text, TemplateText &out) {
  bool doubled = text.bytes.find('\'') != std::string::npos && text.bytes.find('"') == std::string::npos;
  std::string quoted = doubled ? "\"" : "'";
  for (char c : text.bytes) {
    if (c == '\\' || (c == '\'' && !doubled))
      (quoted += '\\') += c;
    else if (c == '\n')
      quoted += "\\n";
    else if (c == '\r')
      quoted += "\\r";
    else if (c == '\t')
      quoted += "\\t";
    else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
      char escape[8];
      snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned>(c));
      quoted += escape;
    } else
      quoted += c;
  }
  quoted += doubled ? "\"" : "'";
  out.append(quoted, text.trusted());
}

void TemplateEvaluator::emit(std::string_view text, bool trusted, TemplateText &out) {
  heap.spend(text.size());
  if (pay(fuelForBytes(text.size())))
    out.append(text, trusted);
}

TemplateText TemplateEvaluator::toText(const TemplateValue &value) {
  TemplateText text;
  write(value, false, text);
  return text;
}

void TemplateEvaluator::write(const TemplateValue &value, bool quoted, TemplateText &out, int level) {
  if (level > JsonValue::maxDepth)
    fail("text of a value that nests deeper than the limit of " + std::to_string(JsonValue::maxDepth));
  if (!pay())
    return;
  const bool isList = value.kind == ValueKind::List;
  switch (value.kind) {
  case ValueKind::Undefined:
    break;
  case ValueKind::None:
    emit("None", true, out);
    break;
  case ValueKind::Bool:
    emit(value.boolean ? "True" : "False", true, out);
    break;
  case ValueKind::Integer:
    emit(std::to_string(value.integer), true, out);
    break;
  case ValueKind::Float:
    emit(formatFloat(value.number), true, out);
    break;
  case ValueKind::String:
    heap.spend(value.text->bytes.size());
    if (pay(fuelFor(value)))
      quoted ? appendQuoted(*value.text, out) : out.append(*value.text);
    break;
  case ValueKind::List:
  case ValueKind::Dict: {
    const size_t count = isList ? value.list->items.size() : value.dict->items.size();
    emit(!isList ? "{" : value.isTuple ? "(" : "[", true, out);
    for (size_t i = 0; i < count && !failed(); ++i) {
      emit(i ? ", " : "", true, out);
      if (!isList) {
        write(value.dict->items[i].first, true, out, level + 1);
        emit(": ", true, out);
      }
      write(isList ? value.list->items[i] : value.dict->items[i].second, true, out, level + 1);
    }
    emit(!isList ? "}" : !value.isTuple ? "]" : count == 1 ? ",)" : ")", true, out);
    break;
  }
  default:
    emit("<" + std::string(kindName(value)) + ">", true, out);
  }
}

struct TemplateEvaluator::JsonStyle {
  std::string itemSeparator = ", ", keySeparator = ": ";
  int indent = -1;
  bool ascii = false, sortKeys = false;
};

TemplateValue TemplateEvaluator::json(const TemplateValue &value, const TemplateArguments &arguments) {
  JsonStyle style;
  const TemplateValue *ascii = arguments.get(0, "ensure_ascii"), *sort = arguments.get(3, "sort_keys");
  // Hugging Face's tojson takes (value, ensure_ascii, indent, separators, sort_keys); Jinja's own takes indent first.
  bool indentFirst = ascii && ascii->kind == ValueKind::Integer;
  style.ascii = ascii && !indentFirst && isTrue(*ascii);
  style.sortKeys = sort && isTrue(*sort);
  int64_t indent = indentFirst ? ascii->integer : integerArgument(arguments, 1, "indent", -1);
  if (indent > 64)
    return fail("tojson with an indent of " + std::to_string(indent) + " exceeds the limit of 64");
  style.indent = indent < 0 ? -1 : static_cast<int>(indent);
  if (indent >= 0)
    style.itemSeparator = ",";
  const TemplateValue *separators = arguments.get(2, "separators");
  if (separators && separators->kind == ValueKind::List && separators->list->items.size() == 2) {
    style.itemSeparator = toText(separators->list->items[0]).bytes;
    style.keySeparator = toText(separators->list->items[1]).bytes;
  }
  TemplateText text;
  writeJson(value, style, text, 0);
  return heap.text(std::move(text));
}

void TemplateEvaluator::breakLine(const JsonStyle &style, int level, TemplateText &out) {
  if (style.indent >= 0)
    emit("\n" + std::string(static_cast<size_t>(style.indent * level), ' '), true, out);
}

// What json.dumps gives.
void TemplateEvaluator::writeJson(const TemplateValue &value, const JsonStyle &style, TemplateText &out, int level) {
  if (level > JsonValue::maxDepth)
    fail("tojson of a value that nests deeper than the limit of " + std::to_string(JsonValue::maxDepth));
  if (!pay())
    return;
  switch (value.kind) {
  case ValueKind::None:
    emit("null", true, out);
    break;
  case ValueKind::Bool:
    emit(value.boolean ? "true" : "false", true, out);
    break;
  case ValueKind::Integer:
    emit(std::to_string(value.integer), true, out);
    break;
  case ValueKind::Float:
    emit(std::isnan(value.number)   ? "NaN"
         : std::isinf(value.number) ? (value.number < 0 ? "-Infinity" : "Infinity")
                                    : formatFloat(value.number),
         true, out);
    break;
  case ValueKind::String:
    if (pay(fuelFor(value)))
      emit(jsonString(value.text->bytes, style.ascii), value.text->trusted(), out);
    break;
  case ValueKind::List: {
    const std::vector<TemplateValue> &items = value.list->items;
    emit("[", true, out);
    for (size_t i = 0; i < items.size() && !failed(); ++i) {
      emit(i ? style.itemSeparator : "", true, out);
      breakLine(style, level + 1, out);
      writeJson(items[i], style, out, level + 1);
    }
    if (!items.empty())
      breakLine(style, level, out);
    emit("]", true, out);
    break;
  }
  case ValueKind::Dict:
    writeJsonDict(value, style, out, level);
    break;
  default:
    fail("tojson of " + std::string(kindName(value)) + ", which has no JSON form");
  }
}

void TemplateEvaluator::writeJsonDict(const TemplateValue &dict, const JsonStyle &style, TemplateText &out, int level) {
  std::vector<TemplateValue> keys;
  for (const TemplateDict::Member &item : dict.dict->items)
    keys.push_back(item.first);
  std::vector<size_t> places;
  if (style.sortKeys)
    places = order(keys, false);
  emit("{", true, out);
  for (size_t i = 0; i < keys.size() && !failed(); ++i) {
    const TemplateDict::Member &item = dict.dict->items[style.sortKeys ? places[i] : i];
    emit(i ? style.itemSeparator : "", true, out);
    breakLine(style, level + 1, out);
    writeJsonKey(item.first, style, out);
    emit(style.keySeparator, true, out);
    writeJson(item.second, style, out, level + 1);
  }
  if (!keys.empty())
    breakLine(style, level, out);
  emit("}", true, out);
}

// JSON's keys are strings: those of other kinds that json.dumps takes become their text.
void TemplateEvaluator::writeJsonKey(const TemplateValue &key, const JsonStyle &style, TemplateText &out) {
  if (key.kind == ValueKind::String)
    return writeJson(key, style, out, 0);
  if (!isNumber(key) && key.kind != ValueKind::None) {
    fail("tojson of a mapping with a key that is " + std::string(kindName(key)) +
         ", not a string, number, boolean or none");
    return;
  }
  emit("\"", true, out);
  writeJson(key, style, out, 0);
  emit("\"", true, out);
}

} // namespace heddle
