// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Text.h"
#include "runtime/text/template/TemplateEvaluator.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace heddle {

static constexpr std::string_view filterNames = " abs attr capitalize count d default dictsort e escape first float "
                                                "forceescape indent int items join last length list lower lstrip map "
                                                "max min reject rejectattr replace reverse round rstrip safe select "
                                                "selectattr sort string strip sum title tojson trim unique upper "
                                                "wordcount ";

bool isTemplateFilter(std::string_view name) {
  return !name.empty() && filterNames.find(" " + std::string(name) + " ") != std::string_view::npos;
}

int64_t TemplateEvaluator::integerArgument(const TemplateArguments &arguments, size_t index, std::string_view name,
                                           int64_t standard) {
  const TemplateValue *value = arguments.get(index, name);
  if (!value || value->kind == ValueKind::None)
    return standard;
  if (value->kind == ValueKind::Bool)
    return value->boolean;
  if (value->kind == ValueKind::Integer)
    return value->integer;
  fail("an integer is expected, not " + std::string(kindName(*value)));
  return standard;
}

const TemplateText *TemplateEvaluator::textArgument(const TemplateArguments &arguments, size_t index,
                                                    std::string_view name) {
  const TemplateValue *value = arguments.get(index, name);
  if (value && value->kind == ValueKind::String)
    return value->text;
  fail("a string is expected" + (value ? ", not " + std::string(kindName(*value)) : std::string()));
  return nullptr;
}

// object.a.b by its path "a.b"; numbers are indices.
TemplateValue TemplateEvaluator::path(const TemplateValue &value, const TemplateValue &name) {
  if (name.kind != ValueKind::String)
    return index(value, name);
  if (!pay(fuelFor(name)))
    return TemplateValue();
  TemplateValue object = value;
  const std::string &bytes = name.text->bytes;
  for (size_t begin = 0; begin <= bytes.size() && !failed();) {
    size_t end = std::min(bytes.find('.', begin), bytes.size());
    std::string part = bytes.substr(begin, end - begin);
    bool number = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    // A member before a method: selectattr("items") means the key.
    const TemplateValue *found = object.kind == ValueKind::Dict ? member(object, part) : nullptr;
    object = found ? *found : number ? index(object, heap.integer(atoi(part.c_str()))) : attribute(object, part);
    begin = end + 1;
  }
  return object;
}

TemplateValue TemplateEvaluator::filter(const std::string &name, const TemplateValue &value,
                                        const TemplateArguments &arguments) {
  if (name == "default" || name == "d") {
    const TemplateValue *standard = arguments.get(0, "default_value"), *falsy = arguments.get(1, "boolean");
    bool missing = value.kind == ValueKind::Undefined || (falsy && isTrue(*falsy) && !isTrue(value));
    return !missing ? value : standard ? *standard : heap.text("", true);
  }
  if (name == "safe")
    return value;
  if (!payFor(arguments))
    return TemplateValue();
  if (name == "tojson")
    return json(value, arguments);
  if (name == "attr") {
    const TemplateValue *key = arguments.get(0, "name");
    return key ? index(value, *key) : fail("attr takes a name");
  }
  if (name == "length" || name == "count") {
    if (value.kind == ValueKind::String && pay(fuelFor(value)))
      return heap.integer(
          std::count_if(value.text->bytes.begin(), value.text->bytes.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    if (value.kind == ValueKind::List)
      return heap.integer(static_cast<int64_t>(value.list->items.size()));
    if (value.kind == ValueKind::Dict)
      return heap.integer(static_cast<int64_t>(value.dict->items.size()));
    return value.kind == ValueKind::Undefined ? heap.integer(0) : fail("the length of " + std::string(kindName(value)));
  }
  if (name == "items" || name == "dictsort") {
    if (value.kind == ValueKind::Undefined && name == "items")
      return heap.list({});
    if (value.kind != ValueKind::Dict)
      return fail("filter '" + name + "' needs a mapping, not " + kindName(value));
    return name == "items" ? members(value, true, true) : dictsort(value, arguments);
  }
  if (name == "abs" || name == "int" || name == "float" || name == "round")
    return numberFilter(name, value, arguments);
  static constexpr std::string_view ofText =
      " capitalize e escape forceescape indent lower lstrip replace rstrip string strip title trim upper wordcount ";
  if (ofText.find(" " + name + " ") != std::string_view::npos)
    return textFilter(name, value, arguments);
  return listFilter(name, value, arguments);
}

static void appendIndented(const TemplateText &text, std::string_view indent, bool first, bool blank,
                           TemplateText &out) {
  for (size_t begin = 0; begin <= text.bytes.size();) {
    size_t end = std::min(text.bytes.find('\n', begin), text.bytes.size());
    if (begin ? end > begin || blank : first)
      out.append(indent, true);
    out.append(text, begin, std::min(end + 1, text.bytes.size()));
    begin = end + 1;
  }
}

static void appendEscaped(const TemplateText &text, TemplateText &out) {
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    static constexpr std::string_view signs = "&<>'\"", names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    size_t sign = signs.find(text.bytes[i]);
    if (sign == std::string_view::npos)
      out.append(text, i, i + 1);
    else
      out.append(names[sign], true);
  }
}

TemplateValue TemplateEvaluator::textFilter(const std::string &name, const TemplateValue &value,
                                            const TemplateArguments &arguments) {
  if (name == "string" && value.kind == ValueKind::String)
    return value;
  TemplateText text = toText(value), out;
  if (name == "string")
    return heap.text(std::move(text));
  if (name == "trim" || name == "strip" || name == "lstrip" || name == "rstrip")
    return heap.text(strip(text, arguments.get(0, "chars"), name != "rstrip", name != "lstrip"));
  if (name == "replace") {
    const TemplateText *from = textArgument(arguments, 0, "old"), *to = textArgument(arguments, 1, "new");
    int64_t count = integerArgument(arguments, 2, "count", -1);
    return failed() ? TemplateValue() : heap.text(replace(text, *from, *to, count));
  }
  if (name == "indent") {
    const TemplateValue *width = arguments.get(0, "width"), *first = arguments.get(1, "first"),
                        *blank = arguments.get(2, "blank");
    int64_t spaces = width && width->kind == ValueKind::String ? 0 : integerArgument(arguments, 0, "width", 4);
    if (spaces < 0 || spaces > 64)
      return fail("indent of " + std::to_string(spaces) + " exceeds the limit of 64");
    std::string indent =
        width && width->kind == ValueKind::String ? width->text->bytes : std::string(static_cast<size_t>(spaces), ' ');
    size_t added = indent.size() * static_cast<size_t>(std::count(text.bytes.begin(), text.bytes.end(), '\n') + 1);
    heap.spend(added);
    if (!pay(fuelForBytes(added)))
      return TemplateValue();
    appendIndented(text, indent, first && isTrue(*first), blank && isTrue(*blank), out);
    return heap.text(std::move(out));
  }
  if (name == "e" || name == "escape" || name == "forceescape") {
    appendEscaped(text, out);
    return heap.text(std::move(out));
  }
  if (name == "wordcount") {
    TemplateValue words = split(text, TemplateArguments(), false);
    return failed() ? words : heap.integer(static_cast<int64_t>(words.list->items.size()));
  }
  return heap.text(mapCase(text, caseMapping(name, CaseMapping::TitleOfWords)));
}

TemplateValue TemplateEvaluator::numberFilter(const std::string &name, const TemplateValue &value,
                                              const TemplateArguments &arguments) {
  if (name == "abs" || name == "round") {
    if (!isNumber(value))
      return fail("filter '" + name + "' needs a number, not " + kindName(value));
    if (name == "abs" && value.kind != ValueKind::Float)
      return asNumber(value) < 0 ? integerArithmetic("-", 0, value.integer) : value;
    int64_t precision = name == "round" ? integerArgument(arguments, 0, "precision", 0) : 0;
    double scale = std::pow(10.0, static_cast<double>(std::min<int64_t>(std::max<int64_t>(precision, -300), 300)));
    return heap.number(name == "abs" ? std::fabs(value.number) : std::nearbyint(asNumber(value) * scale) / scale);
  }
  const TemplateValue *standard = arguments.get(0, "default");
  TemplateValue otherwise = standard ? *standard : name == "int" ? heap.integer(0) : heap.number(0);
  double number = 0;
  if (isNumber(value)) {
    if (name == "int" && value.kind != ValueKind::Float)
      return heap.integer(value.kind == ValueKind::Bool ? value.boolean : value.integer);
    number = asNumber(value);
  } else if (value.kind == ValueKind::String && pay(fuelFor(value))) {
    std::string text = strip(*value.text, nullptr, true, true).bytes;
    char *end = nullptr;
    number = strtod(text.c_str(), &end);
    if (text.empty() || *end || text.find_first_of("xXnN") != std::string::npos)
      return otherwise;
  } else {
    return otherwise;
  }
  if (name == "float")
    return heap.number(number);
  return std::fabs(number) < 9e18 ? heap.integer(static_cast<int64_t>(number)) : otherwise;
}

TemplateValue TemplateEvaluator::join(const TemplateValue &value, const TemplateText &separator,
                                      const TemplateValue *name) {
  TemplateText text;
  std::vector<TemplateValue> items = elements(value);
  for (size_t i = 0; i < items.size() && pay(fuelForBytes(separator.bytes.size())); ++i) {
    if (i && heap.spend(separator.bytes.size()))
      text.append(separator);
    write(name ? path(items[i], *name) : items[i], false, text);
  }
  return heap.text(std::move(text));
}

// select, reject: by a test of the element; selectattr, rejectattr: of one of its attributes.
TemplateValue TemplateEvaluator::select(const std::string &name, const TemplateValue &value,
                                        const TemplateArguments &arguments) {
  bool byAttribute = name == "selectattr" || name == "rejectattr", wanted = name[0] == 's';
  size_t testAt = byAttribute ? 1 : 0;
  if (byAttribute && arguments.positional.empty())
    return fail(name + " takes the name of an attribute");
  std::string testName;
  TemplateArguments testArguments;
  if (arguments.positional.size() > testAt) {
    const TemplateValue &given = arguments.positional[testAt];
    testName = given.kind == ValueKind::String ? given.text->bytes : "";
    if (testName == "==" || testName == "!=")
      testName = testName == "==" ? "eq" : "ne";
    if (!isTemplateTest(testName))
      return fail("unknown test '" + printable(testName, 40) + "'");
    testArguments.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(testAt) + 1,
                                    arguments.positional.end());
  }
  std::vector<TemplateValue> kept;
  for (const TemplateValue &item : elements(value)) {
    if (!pay())
      break;
    TemplateValue subject = byAttribute ? path(item, arguments.positional[0]) : item;
    bool holds = testName.empty() ? isTrue(subject) : test(testName, subject, testArguments);
    if (holds == wanted)
      kept.push_back(item);
  }
  return heap.list(std::move(kept));
}

TemplateValue TemplateEvaluator::listFilter(const std::string &name, const TemplateValue &value,
                                            const TemplateArguments &arguments) {
  if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
    return select(name, value, arguments);
  if (name == "join") {
    const TemplateValue *separator = arguments.get(0, "d");
    return join(value, separator ? toText(*separator) : TemplateText(), arguments.get(1, "attribute"));
  }
  if ((name == "first" || name == "last") && value.kind == ValueKind::List && !value.list->items.empty())
    return name == "first" ? value.list->items.front() : value.list->items.back();
  std::vector<TemplateValue> items = elements(value);
  if (failed())
    return TemplateValue();
  if (name == "first" || name == "last")
    return items.empty() ? TemplateValue() : name == "first" ? items.front() : items.back();
  if (name == "list")
    return heap.list(std::move(items));
  if (name == "reverse") {
    std::reverse(items.begin(), items.end());
    if (value.kind != ValueKind::String)
      return heap.list(std::move(items));
    return join(heap.list(std::move(items)), TemplateText(), nullptr);
  }
  if (name == "map")
    return map(items, arguments);
  if (name != "sum")
    return orderingFilter(name, items, arguments);
  const TemplateValue *attributeName = arguments.get(0, "attribute"), *start = arguments.get(1, "start");
  TemplateValue total = start ? *start : heap.integer(0);
  for (size_t i = 0; i < items.size() && pay(); ++i)
    total = arithmetic("+", total, attributeName ? path(items[i], *attributeName) : items[i]);
  return total;
}

TemplateValue TemplateEvaluator::map(const std::vector<TemplateValue> &items, const TemplateArguments &arguments) {
  const TemplateValue *attributeName = arguments.get(SIZE_MAX, "attribute"),
                      *standard = arguments.get(SIZE_MAX, "default");
  const TemplateValue *inner = arguments.get(0, "filter");
  if (!attributeName && (!inner || inner->kind != ValueKind::String || !isTemplateFilter(inner->text->bytes) ||
                         inner->text->bytes == "map"))
    return fail("map takes attribute= or the name of a filter");
  TemplateArguments rest;
  if (!attributeName)
    rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
  std::vector<TemplateValue> result;
  for (size_t i = 0; i < items.size() && pay(); ++i) {
    TemplateValue mapped = attributeName ? path(items[i], *attributeName) : filter(inner->text->bytes, items[i], rest);
    result.push_back(standard && mapped.kind == ValueKind::Undefined ? *standard : mapped);
  }
  return heap.list(std::move(result));
}

// What the filters below compare: the elements or an attribute of them, strings in lower case unless their case counts.
std::vector<TemplateValue> TemplateEvaluator::keysOf(const std::vector<TemplateValue> &items,
                                                     const TemplateValue *caseSensitive,
                                                     const TemplateValue *attributeName) {
  std::vector<TemplateValue> keys;
  for (size_t i = 0; i < items.size() && pay(); ++i) {
    bool whole = !attributeName || attributeName->kind == ValueKind::None;
    TemplateValue key = whole ? items[i] : path(items[i], *attributeName);
    if (key.kind == ValueKind::String && !(caseSensitive && isTrue(*caseSensitive)) && pay(fuelFor(key)))
      key = heap.text(mapCase(*key.text, CaseMapping::Lower));
    keys.push_back(key);
  }
  return keys;
}

TemplateValue TemplateEvaluator::inOrder(const std::vector<TemplateValue> &items,
                                         const std::vector<TemplateValue> &keys, const TemplateValue *reverse) {
  if (failed())
    return TemplateValue();
  std::vector<TemplateValue> result;
  for (size_t index : order(keys, reverse && isTrue(*reverse)))
    result.push_back(items[index]);
  return heap.list(std::move(result));
}

TemplateValue TemplateEvaluator::dictsort(const TemplateValue &value, const TemplateArguments &arguments) {
  const TemplateValue *by = arguments.get(1, "by");
  bool byValue = by && by->kind == ValueKind::String && by->text->bytes == "value";
  if (by && !byValue && (by->kind != ValueKind::String || by->text->bytes != "key"))
    return fail("dictsort takes by='key' or by='value'");
  TemplateValue pairs = members(value, true, true), side = heap.integer(byValue);
  const std::vector<TemplateValue> &items = pairs.list->items;
  return inOrder(items, keysOf(items, arguments.get(0, "case_sensitive"), &side), arguments.get(2, "reverse"));
}

// sort, unique, min, max. They take case_sensitive and attribute, sort takes reverse before them.
TemplateValue TemplateEvaluator::orderingFilter(const std::string &name, const std::vector<TemplateValue> &items,
                                                const TemplateArguments &arguments) {
  const size_t first = name == "sort" ? 1 : 0;
  std::vector<TemplateValue> keys =
      keysOf(items, arguments.get(first, "case_sensitive"), arguments.get(first + 1, "attribute"));
  if (name == "sort")
    return inOrder(items, keys, arguments.get(0, "reverse"));
  if (failed() || (items.empty() && name != "unique"))
    return TemplateValue();
  if (name == "unique") {
    std::vector<TemplateValue> seen, kept;
    for (size_t i = 0; i < items.size() && pay(); ++i) {
      auto isSame = [&](const TemplateValue &other) { return failed() || equals(keys[i], other); };
      if (std::any_of(seen.begin(), seen.end(), isSame))
        continue;
      seen.push_back(keys[i]);
      kept.push_back(items[i]);
    }
    return heap.list(std::move(kept));
  }
  size_t best = 0;
  for (size_t i = 1; i < items.size() && !failed(); ++i)
    if (name == "min" ? precedes(keys[i], keys[best]) : precedes(keys[best], keys[i]))
      best = i;
  return items[best];
}

} // namespace heddle
