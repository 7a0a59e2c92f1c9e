// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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
  TemplateValue object = value;
  const std::string &bytes = name.text->bytes;
  for (size_t begin = 0; begin <= bytes.size() && !failed();) {
    size_t end = std::min(bytes.find('.', begin), bytes.size());
    std::string part = bytes.substr(begin, end - begin);
    bool number = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    // A member before a method: selectattr("items") means the key.
    const TemplateValue *member = object.kind == ValueKind::Dict ? findMember(*object.dict, part, fuel) : nullptr;
    object = member ? *member : number ? index(object, heap.integer(atoi(part.c_str()))) : attribute(object, part);
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
  if (name == "tojson")
    return json(value, arguments);
  if (name == "safe")
    return value;
  if (name == "attr") {
    const TemplateValue *member = arguments.get(0, "name");
    return member ? index(value, *member) : fail("attr takes a name");
  }
  if (name == "length" || name == "count") {
    if (value.kind == ValueKind::String)
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
    TemplateValue pairs = members(value, true, true);
    return name == "items" ? pairs : sorted(pairs, TemplateArguments());
  }
  if (name == "abs" || name == "int" || name == "float" || name == "round")
    return numberFilter(name, value, arguments);
  static constexpr std::string_view ofText =
      " capitalize e escape forceescape indent lower lstrip replace rstrip string strip title trim upper wordcount ";
  if (ofText.find(" " + name + " ") != std::string_view::npos)
    return textFilter(name, value, arguments);
  return listFilter(name, value, arguments);
}

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
  style.indent = static_cast<int>(indent);
  if (indent >= 0)
    style.itemSeparator = ",";
  const TemplateValue *separators = arguments.get(2, "separators");
  if (separators && separators->kind == ValueKind::List && separators->list->items.size() == 2) {
    style.itemSeparator = toText(separators->list->items[0]).bytes;
    style.keySeparator = toText(separators->list->items[1]).bytes;
  }
  TemplateText text;
  if (!appendJson(value, style, text, heap) && pay())
    return fail("tojson of " + std::string(kindName(value)) + ", or of something in it that has no JSON form");
  pay(static_cast<int64_t>(text.bytes.size() / 64));
  return heap.text(std::move(text));
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
    if (!heap.spend(indent.size() * static_cast<size_t>(std::count(text.bytes.begin(), text.bytes.end(), '\n') + 1)) ||
        !pay())
      return fail("indent exceeds the limit of memory for values");
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
  } else if (value.kind == ValueKind::String) {
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
  for (size_t i = 0; i < items.size() && pay() && heap.spend(separator.bytes.size()); ++i) {
    if (i)
      text.append(separator);
    appendText(name ? path(items[i], *name) : items[i], false, text, heap);
  }
  return heap.text(std::move(text));
}

TemplateValue TemplateEvaluator::sorted(const TemplateValue &value, const TemplateArguments &arguments) {
  std::vector<TemplateValue> items = elements(value);
  const TemplateValue *reverse = arguments.get(0, "reverse"), *name = arguments.get(2, "attribute");
  bool caseSensitive = arguments.get(1, "case_sensitive") && isTrue(*arguments.get(1, "case_sensitive"));
  struct Keyed {
    TemplateValue key;
    size_t index;
  };
  std::vector<Keyed> keyed;
  for (size_t i = 0; i < items.size() && pay(); ++i) {
    TemplateValue key = name ? path(items[i], *name) : items[i];
    if (key.kind == ValueKind::List && key.isTuple && !name && !key.list->items.empty())
      key = key.list->items[0]; // dictsort
    if (key.kind == ValueKind::String && !caseSensitive)
      key = heap.text(mapCase(*key.text, CaseMapping::Lower));
    keyed.push_back({key, i});
  }
  for (size_t i = 1; i < keyed.size() && !failed(); ++i)
    less(keyed[0].key, keyed[i].key); // fails for kinds that have no order
  bool plain = std::all_of(keyed.begin(), keyed.end(), [&](const Keyed &k) {
    return isNumber(k.key) ? isNumber(keyed[0].key) && !std::isnan(asNumber(k.key))
                           : k.key.kind == ValueKind::String && k.key.kind == keyed[0].key.kind;
  });
  if (failed() || !plain)
    return failed() ? TemplateValue() : fail("sort needs numbers or strings");
  pay(static_cast<int64_t>(keyed.size()) * 8);
  bool down = reverse && isTrue(*reverse);
  std::sort(keyed.begin(), keyed.end(), [&](const Keyed &a, const Keyed &b) {
    if (less(a.key, b.key))
      return !down;
    if (less(b.key, a.key))
      return down;
    return a.index < b.index;
  });
  std::vector<TemplateValue> result;
  for (const Keyed &k : keyed)
    result.push_back(items[k.index]);
  return heap.list(std::move(result));
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
      return fail("unknown test '" + testName.substr(0, 40) + "'");
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
  if (name == "sort")
    return sorted(value, arguments);
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
  std::vector<TemplateValue> result;
  if (name == "map") {
    const TemplateValue *member = arguments.get(SIZE_MAX, "attribute"), *standard = arguments.get(SIZE_MAX, "default");
    const TemplateValue *inner = arguments.get(0, "filter");
    if (!member && (!inner || inner->kind != ValueKind::String || !isTemplateFilter(inner->text->bytes) ||
                    inner->text->bytes == "map"))
      return fail("map takes attribute= or the name of a filter");
    TemplateArguments rest;
    if (!member)
      rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
    for (size_t i = 0; i < items.size() && pay(); ++i) {
      TemplateValue mapped = member ? path(items[i], *member) : filter(inner->text->bytes, items[i], rest);
      result.push_back(standard && mapped.kind == ValueKind::Undefined ? *standard : mapped);
    }
    return heap.list(std::move(result));
  }
  if (name == "unique") {
    for (const TemplateValue &item : items)
      if (pay() && std::none_of(result.begin(), result.end(),
                                [&](const TemplateValue &other) { return equal(item, other, fuel); }))
        result.push_back(item);
    return heap.list(std::move(result));
  }
  if (items.empty())
    return name == "sum" ? heap.integer(0) : TemplateValue();
  TemplateValue best = name == "sum" ? heap.integer(0) : items[0]; // sum, min, max
  for (const TemplateValue &item : items) {
    if (!pay())
      break;
    if (name == "sum")
      best = arithmetic("+", best, item);
    else if (name == "min" ? less(item, best) : less(best, item))
      best = item;
  }
  return best;
}

} // namespace heddle
