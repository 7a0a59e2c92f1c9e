// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/template/TemplateEvaluator.h"

#include <algorithm>
#include <cmath>

namespace heddle {

TemplateValue TemplateEvaluator::operation(const TemplateNode &node) {
  if (node.kind == NodeKind::Conditional) {
    bool taken = isTrue(evaluate(child(node, 1)));
    return failed() ? TemplateValue() : evaluate(child(node, taken ? 0 : 2));
  }
  TemplateValue value = evaluate(child(node, 0));
  switch (node.kind) {
  case NodeKind::Not:
    return heap.boolean(!isTrue(value));
  case NodeKind::And:
    return failed() || !isTrue(value) ? value : evaluate(child(node, 1));
  case NodeKind::Or:
    return failed() || isTrue(value) ? value : evaluate(child(node, 1));
  default: // a sign
    if (!failed() && !isNumber(value))
      return fail("a sign before " + std::string(kindName(value)));
    if (node.kind == NodeKind::Plus)
      return value;
    return value.kind == ValueKind::Float ? heap.number(-value.number) : arithmetic("-", heap.integer(0), value);
  }
}

TemplateValue TemplateEvaluator::binary(const TemplateNode &node) {
  TemplateValue left = evaluate(child(node, 0)), right = evaluate(child(node, 1));
  if (failed())
    return TemplateValue();
  if (node.text == "~") {
    TemplateText text = toText(left);
    write(right, false, text);
    return heap.text(std::move(text));
  }
  return arithmetic(node.text, left, right);
}

TemplateValue TemplateEvaluator::repeat(const TemplateValue &value, int64_t count) {
  count = count < 0 ? 0 : count;
  size_t unit =
      value.kind == ValueKind::String ? value.text->bytes.size() : value.list->items.size() * sizeof(TemplateValue);
  size_t total = 0;
  if (__builtin_mul_overflow(unit, static_cast<size_t>(count), &total) || !heap.spend(total) || !pay(count) ||
      !pay(fuelForBytes(total)))
    return fail("a repetition exceeds the limit of memory for values");
  TemplateText text;
  std::vector<TemplateValue> items;
  for (int64_t i = 0; i < count; ++i) {
    if (value.kind == ValueKind::String)
      text.append(*value.text);
    else
      items.insert(items.end(), value.list->items.begin(), value.list->items.end());
  }
  return value.kind == ValueKind::String ? heap.text(std::move(text)) : heap.list(std::move(items), value.isTuple);
}

TemplateValue TemplateEvaluator::arithmetic(const std::string &op, const TemplateValue &left,
                                            const TemplateValue &right) {
  if (op == "+" && left.kind == ValueKind::String && right.kind == ValueKind::String) {
    if (!pay(fuelFor(left) + fuelFor(right)))
      return TemplateValue();
    TemplateText text = *left.text;
    text.append(*right.text);
    return heap.text(std::move(text));
  }
  if (op == "+" && left.kind == ValueKind::List && right.kind == ValueKind::List) {
    if (!pay(fuelFor(left) + fuelFor(right)))
      return TemplateValue();
    std::vector<TemplateValue> items = left.list->items;
    items.insert(items.end(), right.list->items.begin(), right.list->items.end());
    return heap.list(std::move(items), left.isTuple);
  }
  auto repeats = [](const TemplateValue &value) {
    return value.kind == ValueKind::String || value.kind == ValueKind::List;
  };
  if (op == "*" && repeats(left) && right.kind == ValueKind::Integer)
    return repeat(left, right.integer);
  if (op == "*" && repeats(right) && left.kind == ValueKind::Integer)
    return repeat(right, left.integer);
  if (!isNumber(left) || !isNumber(right))
    return fail("'" + op + "' between " + kindName(left) + " and " + kindName(right));
  bool whole = left.kind != ValueKind::Float && right.kind != ValueKind::Float && op != "/";
  if (whole)
    return integerArithmetic(op, left.kind == ValueKind::Bool ? left.boolean : left.integer,
                             right.kind == ValueKind::Bool ? right.boolean : right.integer);
  double a = asNumber(left), b = asNumber(right);
  if ((op == "/" || op == "//" || op == "%") && b == 0)
    return fail("division by zero");
  if (op == "+")
    return heap.number(a + b);
  if (op == "-")
    return heap.number(a - b);
  if (op == "*")
    return heap.number(a * b);
  if (op == "/")
    return heap.number(a / b);
  if (op == "//")
    return heap.number(std::floor(a / b));
  if (op == "%")
    return heap.number(a - b * std::floor(a / b));
  return heap.number(std::pow(a, b));
}

TemplateValue TemplateEvaluator::integerArithmetic(const std::string &op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (op == "**") {
    if (b < 0)
      return heap.number(std::pow(static_cast<double>(a), static_cast<double>(b)));
    result = 1;
    for (int64_t i = 0; i < b && !overflow && a != 1; ++i)
      overflow = __builtin_mul_overflow(result, a, &result) || i > 64;
  } else if (b == 0) {
    return fail("division by zero");
  } else if (a == INT64_MIN && b == -1) {
    overflow = op == "//";
  } else {
    // Python rounds towards minus infinity.
    int64_t quotient = a / b, remainder = a % b;
    bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
    result = op == "//" ? quotient - adjust : remainder + (adjust ? b : 0);
  }
  return overflow ? fail("an integer is too large") : heap.integer(result);
}

bool TemplateEvaluator::less(const TemplateValue &left, const TemplateValue &right) {
  if (isNumber(left) && isNumber(right)) {
    if (left.kind == ValueKind::Integer && right.kind == ValueKind::Integer)
      return left.integer < right.integer;
    return asNumber(left) < asNumber(right);
  }
  if (left.kind == ValueKind::String && right.kind == ValueKind::String)
    return pay(std::min(fuelFor(left), fuelFor(right))) && left.text->bytes < right.text->bytes;
  if (left.kind == ValueKind::List && right.kind == ValueKind::List) {
    const auto &a = left.list->items, &b = right.list->items;
    for (size_t i = 0; i < a.size() && i < b.size(); ++i)
      if (!equals(a[i], b[i]))
        return depth < maxEvaluationDepth && Deeper(*this).evaluator.less(a[i], b[i]);
    return a.size() < b.size();
  }
  fail("cannot compare " + std::string(kindName(left)) + " with " + kindName(right));
  return false;
}

bool TemplateEvaluator::precedes(const TemplateValue &left, const TemplateValue &right) {
  for (const TemplateValue *side : {&left, &right})
    if (side->kind == ValueKind::Float && std::isnan(side->number)) {
      fail("NaN cannot be ordered");
      return false;
    }
  return pay() && less(left, right);
}

// A merge sort. Unlike std::sort it ends, and stays within its bounds, whatever `precedes` says: that may fail half-way, and numbers of
// several kinds, compared as doubles, need not have an order.
std::vector<size_t> TemplateEvaluator::order(const std::vector<TemplateValue> &keys, bool descending) {
  const size_t count = keys.size();
  std::vector<size_t> from(count), to(count);
  for (size_t i = 0; i < count; ++i)
    from[i] = i;
  for (size_t width = 1; width < count && !failed(); width *= 2) {
    for (size_t begin = 0; begin < count; begin += 2 * width) {
      const size_t middle = std::min(begin + width, count), end = std::min(begin + 2 * width, count);
      size_t left = begin, right = middle;
      for (size_t next = begin; next < end; ++next) {
        bool takeRight = left == middle;
        if (left < middle && right < end) {
          const TemplateValue &a = keys[from[left]], &b = keys[from[right]];
          takeRight = descending ? precedes(a, b) : precedes(b, a);
        }
        to[next] = from[takeRight ? right++ : left++];
      }
    }
    from.swap(to);
  }
  return from;
}

bool TemplateEvaluator::contains(const TemplateValue &container, const TemplateValue &item) {
  if (container.kind == ValueKind::String) {
    if (item.kind != ValueKind::String) {
      fail("'in' of a string needs a string, not " + std::string(kindName(item)));
      return false;
    }
    return pay(fuelFor(container) + fuelFor(item)) &&
           findText(container.text->bytes, item.text->bytes) != std::string_view::npos;
  }
  if (container.kind == ValueKind::Undefined)
    return false;
  if (container.kind != ValueKind::List && container.kind != ValueKind::Dict) {
    fail("'in' needs a list, a mapping or a string, not " + std::string(kindName(container)));
    return false;
  }
  if (container.kind == ValueKind::Dict)
    return member(container, item) != nullptr;
  for (const TemplateValue &candidate : container.list->items)
    if (failed() || equals(candidate, item))
      return !failed();
  return false;
}

TemplateValue TemplateEvaluator::compare(const TemplateNode &node) {
  TemplateValue left = evaluate(child(node, 0)), right = evaluate(child(node, 1));
  if (failed())
    return TemplateValue();
  const std::string &op = node.text;
  if (op == "==")
    return heap.boolean(equals(left, right));
  if (op == "!=")
    return heap.boolean(!equals(left, right));
  if (op == "<")
    return heap.boolean(less(left, right));
  if (op == ">")
    return heap.boolean(less(right, left));
  if (op == "<=")
    return heap.boolean(!less(right, left));
  if (op == ">=")
    return heap.boolean(!less(left, right));
  return heap.boolean(contains(right, left) == (op == "in"));
}

} // namespace heddle
