// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values as text: Python's str and repr, and json.dumps.
#include "runtime/text/template/TemplateValue.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>
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

void appendText(const TemplateValue &value, bool quoted, TemplateText &out, TemplateHeap &heap, int depth) {
  size_t before = out.bytes.size();
  if (depth > JsonValue::maxDepth || heap.exhausted())
    return;
  switch (value.kind) {
  case ValueKind::Undefined:
    break;
  case ValueKind::None:
    out.append("None", true);
    break;
  case ValueKind::Bool:
    out.append(value.boolean ? "True" : "False", true);
    break;
  case ValueKind::Integer:
    out.append(std::to_string(value.integer), true);
    break;
  case ValueKind::Float:
    out.append(formatFloat(value.number), true);
    break;
  case ValueKind::String:
    quoted ? appendQuoted(*value.text, out) : out.append(*value.text);
    break;
  case ValueKind::List: {
    out.append(value.isTuple ? "(" : "[", true);
    for (size_t i = 0; i < value.list->items.size(); ++i) {
      out.append(i ? ", " : "", true);
      appendText(value.list->items[i], true, out, heap, depth + 1);
    }
    out.append(value.isTuple ? (value.list->items.size() == 1 ? ",)" : ")") : "]", true);
    break;
  }
  case ValueKind::Dict:
    out.append("{", true);
    for (size_t i = 0; i < value.dict->items.size(); ++i) {
      out.append(i ? ", " : "", true);
      appendText(value.dict->items[i].first, true, out, heap, depth + 1);
      out.append(": ", true);
      appendText(value.dict->items[i].second, true, out, heap, depth + 1);
    }
    out.append("}", true);
    break;
  default:
    out.append("<", true);
    out.append(kindName(value), true);
    out.append(">", true);
  }
  heap.spend(out.bytes.size() - before);
}

static void appendJsonText(const TemplateText &text, bool ascii, TemplateText &out) {
  out.append(jsonString(text.bytes, ascii), text.trusted());
}

static void breakLine(const JsonStyle &style, int depth, TemplateText &out) {
  if (style.indent >= 0)
    out.append("\n" + std::string(static_cast<size_t>(style.indent * depth), ' '), true);
}

bool appendJson(const TemplateValue &value, const JsonStyle &style, TemplateText &out, TemplateHeap &heap, int depth) {
  size_t before = out.bytes.size();
  if (depth > JsonValue::maxDepth || heap.exhausted())
    return false;
  bool good = true;
  if (value.kind == ValueKind::None) {
    out.append("null", true);
  } else if (value.kind == ValueKind::Bool) {
    out.append(value.boolean ? "true" : "false", true);
  } else if (isNumber(value)) {
    appendText(value, false, out, heap);
  } else if (value.kind == ValueKind::String) {
    appendJsonText(*value.text, style.ascii, out);
  } else if (value.kind == ValueKind::List) {
    out.append("[", true);
    for (size_t i = 0; good && i < value.list->items.size(); ++i) {
      out.append(i ? style.itemSeparator : "", true);
      breakLine(style, depth + 1, out);
      good = appendJson(value.list->items[i], style, out, heap, depth + 1);
    }
    if (!value.list->items.empty())
      breakLine(style, depth, out);
    out.append("]", true);
  } else if (value.kind == ValueKind::Dict) {
    auto members = value.dict->items;
    if (style.sortKeys)
      std::sort(members.begin(), members.end(), [](const auto &a, const auto &b) {
        return a.first.kind == ValueKind::String && b.first.kind == ValueKind::String &&
               a.first.text->bytes < b.first.text->bytes;
      });
    out.append("{", true);
    for (size_t i = 0; good && i < members.size(); ++i) {
      out.append(i ? style.itemSeparator : "", true);
      breakLine(style, depth + 1, out);
      if (members[i].first.kind == ValueKind::String)
        appendJsonText(*members[i].first.text, style.ascii, out);
      else
        (out.append("\"", true), appendText(members[i].first, false, out, heap), out.append("\"", true));
      out.append(style.keySeparator, true);
      good = appendJson(members[i].second, style, out, heap, depth + 1);
    }
    if (!members.empty())
      breakLine(style, depth, out);
    out.append("}", true);
  } else {
    good = false;
  }
  heap.spend(out.bytes.size() - before);
  return good;
}

} // namespace heddle
