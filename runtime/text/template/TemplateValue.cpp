// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/template/TemplateValue.h"

#include <algorithm>
#include <cstring>

namespace heddle {

void TemplateText::append(std::string_view text, bool trusted) {
  if (text.empty())
    return;
  uint32_t begin = static_cast<uint32_t>(bytes.size());
  bytes += text;
  if (trusted)
    return;
  if (!untrusted.empty() && untrusted.back().end == begin)
    untrusted.back().end = static_cast<uint32_t>(bytes.size());
  else
    untrusted.push_back({begin, static_cast<uint32_t>(bytes.size())});
}

void TemplateText::append(const TemplateText &other, size_t begin, size_t end) {
  // Whoever cuts a text into pieces comes here for each of them: it looks at the ranges of its piece only.
  auto range = std::partition_point(other.untrusted.begin(), other.untrusted.end(),
                                    [&](const TextRange &before) { return before.end <= begin; });
  for (; range != other.untrusted.end() && range->begin < end; ++range) {
    size_t from = range->begin > begin ? range->begin : begin, to = range->end < end ? range->end : end;
    append(std::string_view(other.bytes).substr(begin, from - begin), true);
    append(std::string_view(other.bytes).substr(from, to - from), false);
    begin = to;
  }
  append(std::string_view(other.bytes).substr(begin, end - begin), true);
}

TemplateText TemplateText::substring(size_t begin, size_t end) const {
  TemplateText part;
  if (begin < end)
    part.append(*this, begin, end);
  return part;
}

bool TemplateHeap::spend(size_t bytes) {
  used = __builtin_add_overflow(used, bytes, &used) ? SIZE_MAX : used;
  return !exhausted();
}

TemplateValue TemplateHeap::boolean(bool value) {
  TemplateValue result;
  result.kind = ValueKind::Bool;
  result.boolean = value;
  return result;
}

TemplateValue TemplateHeap::integer(int64_t value) {
  TemplateValue result;
  result.kind = ValueKind::Integer;
  result.integer = value;
  return result;
}

TemplateValue TemplateHeap::number(double value) {
  TemplateValue result;
  result.kind = ValueKind::Float;
  result.number = value;
  return result;
}

TemplateValue TemplateHeap::none() {
  TemplateValue result;
  result.kind = ValueKind::None;
  return result;
}

TemplateValue TemplateHeap::text(TemplateText text) {
  spend(text.bytes.size() + text.untrusted.size() * sizeof(TextRange) + sizeof text);
  texts.emplace_back(new TemplateText(std::move(text)));
  TemplateValue result;
  result.kind = ValueKind::String;
  result.text = texts.back().get();
  return result;
}

TemplateValue TemplateHeap::list(std::vector<TemplateValue> items, bool isTuple) {
  spend(items.size() * sizeof(TemplateValue) + sizeof(TemplateList));
  lists.emplace_back(new TemplateList{std::move(items)});
  TemplateValue result;
  result.kind = ValueKind::List;
  result.isTuple = isTuple;
  result.list = lists.back().get();
  return result;
}

TemplateValue TemplateHeap::dict() {
  spend(sizeof(TemplateDict));
  dicts.emplace_back(new TemplateDict);
  TemplateValue result;
  result.kind = ValueKind::Dict;
  result.dict = dicts.back().get();
  return result;
}

TemplateValue TemplateHeap::loop(TemplateLoop loop) {
  spend(sizeof loop);
  loops.emplace_back(new TemplateLoop(loop));
  TemplateValue result;
  result.kind = ValueKind::Loop;
  result.loop = loops.back().get();
  return result;
}

TemplateValue TemplateHeap::method(TemplateValue object, std::string_view name) {
  spend(sizeof(TemplateMethod) + name.size());
  methods.emplace_back(new TemplateMethod{object, std::string(name)});
  TemplateValue result;
  result.kind = ValueKind::Method;
  result.method = methods.back().get();
  return result;
}

// A role is part of how templates spell special tokens ('<|' + role + '|>'); a plain word cannot spell one by itself.
static bool isPlainWord(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

TemplateValue TemplateHeap::fromJson(JsonValue value, bool isRole) {
  spend(sizeof(TemplateValue));
  int64_t whole = 0;
  double real = 0;
  switch (value.kind()) {
  case JsonKind::Bool:
    return boolean(value.isTrue());
  case JsonKind::Number:
    value.number(real);
    return value.integer(whole) ? integer(whole) : number(real);
  case JsonKind::String: {
    std::string bytes = value.string();
    return text(bytes, isRole && isPlainWord(bytes));
  }
  case JsonKind::Array: {
    std::vector<TemplateValue> items;
    for (JsonItems members(value); members.next() && !exhausted();)
      items.push_back(fromJson(members.value));
    return list(std::move(items));
  }
  case JsonKind::Object: {
    TemplateValue result = dict();
    for (JsonItems members(value); members.next() && !exhausted();) {
      TemplateValue key = text(members.key.string(), false);
      result.dict->items.emplace_back(key, fromJson(members.value, key.text->bytes == "role"));
    }
    return result;
  }
  default:
    return none();
  }
}

bool isTrue(const TemplateValue &value) {
  switch (value.kind) {
  case ValueKind::Undefined:
  case ValueKind::None:
    return false;
  case ValueKind::Bool:
    return value.boolean;
  case ValueKind::Integer:
    return value.integer != 0;
  case ValueKind::Float:
    return value.number != 0;
  case ValueKind::String:
    return !value.text->bytes.empty();
  case ValueKind::List:
    return !value.list->items.empty();
  case ValueKind::Dict:
    return value.isNamespace || !value.dict->items.empty();
  default:
    return true;
  }
}

bool isNumber(const TemplateValue &value) {
  return value.kind == ValueKind::Bool || value.kind == ValueKind::Integer || value.kind == ValueKind::Float;
}

double asNumber(const TemplateValue &value) {
  return value.kind == ValueKind::Float  ? value.number
         : value.kind == ValueKind::Bool ? value.boolean
                                         : static_cast<double>(value.integer);
}

int64_t fuelForBytes(size_t bytes) {
  return static_cast<int64_t>(bytes / 32);
}

int64_t fuelForElements(size_t count) {
  return static_cast<int64_t>(count / 16);
}

int64_t fuelFor(const TemplateValue &value) {
  return value.kind == ValueKind::String ? fuelForBytes(value.text->bytes.size())
         : value.kind == ValueKind::List ? fuelForElements(value.list->items.size())
         : value.kind == ValueKind::Dict ? fuelForElements(value.dict->items.size())
                                         : 0;
}

bool equal(const TemplateValue &a, const TemplateValue &b, int64_t &fuel, int depth) {
  fuel -= 1;
  if (fuel < 0 || depth > JsonValue::maxDepth)
    return false;
  if (isNumber(a) && isNumber(b)) {
    if (a.kind != ValueKind::Float && b.kind != ValueKind::Float)
      return (a.kind == ValueKind::Bool ? a.boolean : a.integer) == (b.kind == ValueKind::Bool ? b.boolean : b.integer);
    return asNumber(a) == asNumber(b);
  }
  if (a.kind != b.kind)
    return false;
  switch (a.kind) {
  case ValueKind::Undefined:
  case ValueKind::None:
    return true;
  case ValueKind::String:
    if (a.text->bytes.size() != b.text->bytes.size())
      return false;
    fuel -= fuelFor(a);
    return a.text->bytes == b.text->bytes;
  case ValueKind::List: {
    const auto &left = a.list->items, &right = b.list->items;
    bool same = left.size() == right.size() && a.isTuple == b.isTuple;
    for (size_t i = 0; same && i < left.size(); ++i)
      same = equal(left[i], right[i], fuel, depth + 1);
    return same;
  }
  case ValueKind::Dict: {
    bool same = a.dict->items.size() == b.dict->items.size();
    for (size_t i = 0; same && i < a.dict->items.size(); ++i) {
      same = false;
      for (const auto &other : b.dict->items)
        same |= equal(a.dict->items[i].first, other.first, fuel, depth + 1) &&
                equal(a.dict->items[i].second, other.second, fuel, depth + 1);
    }
    return same;
  }
  case ValueKind::Loop:
    return a.loop == b.loop;
  case ValueKind::Method:
    return a.method == b.method;
  default:
    return a.node == b.node;
  }
}

TemplateValue *findMember(TemplateDict &dict, std::string_view key, int64_t &fuel) {
  fuel -= fuelForElements(dict.items.size());
  for (size_t i = dict.items.size(); i-- > 0 && fuel >= 0;) {
    const TemplateValue &name = dict.items[i].first;
    if (name.kind != ValueKind::String || name.text->bytes.size() != key.size())
      continue;
    fuel -= fuelForBytes(key.size());
    if (name.text->bytes == key)
      return &dict.items[i].second;
  }
  return nullptr;
}

TemplateValue *findMember(TemplateDict &dict, const TemplateValue &key, int64_t &fuel) {
  if (key.kind == ValueKind::String)
    return findMember(dict, key.text->bytes, fuel);
  for (size_t i = dict.items.size(); i-- > 0 && fuel >= 0;)
    if (equal(dict.items[i].first, key, fuel))
      return &dict.items[i].second;
  return nullptr;
}

size_t findText(std::string_view text, std::string_view pattern, size_t from) {
  if (from > text.size())
    return std::string_view::npos;
  const void *found = memmem(text.data() + from, text.size() - from, pattern.data(), pattern.size());
  return found ? static_cast<size_t>(static_cast<const char *>(found) - text.data()) : std::string_view::npos;
}

const char *kindName(const TemplateValue &value) {
  static constexpr const char *names[] = {"undefined", "none",     "a boolean",  "an integer",
                                          "a float",   "a string", "a list",     "a mapping",
                                          "a loop",    "a macro",  "a function", "a method"};
  return names[static_cast<int>(value.kind)];
}

} // namespace heddle
