// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/template/TemplateEvaluator.h"
#include "runtime/text/tokenizer/TextParts.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>

namespace heddle {

bool TemplateEvaluator::knowsLetters() {
  if (!heddle_text_parts.unicode)
    fail("this program was linked without the tables of letters");
  return heddle_text_parts.unicode;
}

// Each character keeps where it comes from.
TemplateText TemplateEvaluator::mapCase(const TemplateText &text, CaseMapping mapping) {
  constexpr std::string_view betweenWords = "-({[<"; // of Jinja's title, beside white space
  TemplateText out;
  if (!knowsLetters())
    return out;
  bool raise = mapping != CaseMapping::Lower;
  size_t range = 0;
  for (size_t position = 0; position < text.bytes.size();) {
    while (range < text.untrusted.size() && text.untrusted[range].end <= position)
      ++range;
    bool trusted = range == text.untrusted.size() || text.untrusted[range].begin > position;
    char32_t c = nextCharacter(text.bytes, position);
    std::string mapped;
    if (raise)
      appendUtf8(toUppercase(c), mapped);
    else
      appendLowercase(c, mapped);
    out.append(mapped, trusted);
    if (mapping == CaseMapping::Capitalize)
      raise = false;
    else if (mapping == CaseMapping::TitleOfLetters)
      raise = !isUppercase(c) && !isLowercase(c);
    else if (mapping == CaseMapping::TitleOfWords)
      raise = isWhiteSpace(c) || (c < 0x80 && betweenWords.find(static_cast<char>(c)) != std::string_view::npos);
  }
  return out;
}

CaseMapping caseMapping(std::string_view name, CaseMapping title) {
  return name == "upper"   ? CaseMapping::Upper
         : name == "lower" ? CaseMapping::Lower
         : name == "title" ? title
                           : CaseMapping::Capitalize;
}

// Python's strip: white space, or any of the given characters.
TemplateText TemplateEvaluator::strip(const TemplateText &text, const TemplateValue *given, bool left, bool right) {
  std::string_view characters;
  bool any = given && given->kind == ValueKind::String;
  if (any)
    characters = given->text->bytes;
  auto goes = [&](char32_t c) {
    if (!any)
      return isWhiteSpace(c) || (c >= 0x1C && c <= 0x1F);
    for (size_t position = 0; position < characters.size();)
      if (nextCharacter(characters, position) == c)
        return pay(1 + fuelForBytes(position));
    pay(fuelForBytes(characters.size()));
    return false;
  };
  size_t begin = 0, end = text.bytes.size();
  for (size_t next = 0; left && next < end && goes(nextCharacter(text.bytes, next));)
    begin = next;
  for (size_t before = end; right && before > begin && goes(previousCharacter(text.bytes, before));)
    end = before;
  return text.substring(begin, end);
}

TemplateText TemplateEvaluator::replace(const TemplateText &text, const TemplateText &from, const TemplateText &to,
                                        int64_t count) {
  TemplateText out;
  size_t done = 0;
  if (from.bytes.empty()) // Python puts `to` between all characters; no template means that
    return text;
  for (size_t at; count != 0 && (at = findText(text.bytes, from.bytes, done)) != std::string_view::npos &&
                  heap.spend(to.bytes.size()) && pay(1 + fuelForBytes(to.bytes.size()));
       --count) {
    out.append(text, done, at);
    out.append(to);
    done = at + from.bytes.size();
  }
  out.append(text, done, text.bytes.size());
  return out;
}

TemplateValue TemplateEvaluator::split(const TemplateText &text, const TemplateArguments &arguments, bool fromRight) {
  const TemplateValue *separator = arguments.get(0, "sep");
  int64_t most = integerArgument(arguments, 1, "maxsplit", -1);
  std::vector<TemplateValue> parts;
  // From the right, the text and its separator are read backwards.
  std::string bytes = text.bytes;
  auto add = [&](size_t begin, size_t end) {
    const size_t size = bytes.size();
    parts.push_back(heap.text(fromRight ? text.substring(size - end, size - begin) : text.substring(begin, end)));
  };
  if (!separator || separator->kind == ValueKind::None) {
    if (most >= 0)
      return fail("split at white space with a maximum is not supported");
    fromRight = false;
    for (size_t position = 0, begin = 0; position <= bytes.size() && pay();) {
      size_t here = position;
      bool ends = position == bytes.size() || isWhiteSpace(nextCharacter(bytes, position));
      if (ends && here > begin)
        add(begin, here);
      if (ends)
        begin = position;
      if (here == bytes.size())
        break;
    }
  } else if (separator->kind != ValueKind::String || separator->text->bytes.empty()) {
    return fail("split needs a separator that is a string and not empty");
  } else {
    std::string sign = separator->text->bytes;
    if (fromRight) {
      std::reverse(bytes.begin(), bytes.end());
      std::reverse(sign.begin(), sign.end());
    }
    size_t begin = 0;
    for (size_t at; most != 0 && (at = findText(bytes, sign, begin)) != std::string_view::npos && pay();
         --most, begin = at + sign.size())
      add(begin, at);
    add(begin, bytes.size());
    if (fromRight)
      std::reverse(parts.begin(), parts.end());
  }
  return heap.list(std::move(parts));
}

TemplateValue TemplateEvaluator::members(const TemplateValue &dict, bool keys, bool values) {
  std::vector<TemplateValue> items;
  for (const auto &member : dict.dict->items) {
    if (!pay())
      break;
    items.push_back(keys && values ? heap.list({member.first, member.second}, true)
                    : keys         ? member.first
                                   : member.second);
  }
  return heap.list(std::move(items));
}

TemplateValue TemplateEvaluator::callMethod(const TemplateMethod &method, const TemplateArguments &arguments) {
  if (!payFor(arguments))
    return TemplateValue();
  if (method.object.kind == ValueKind::String)
    return pay(fuelFor(method.object)) ? textMethod(*method.object.text, method.name, arguments) : TemplateValue();
  if (method.object.kind == ValueKind::Dict)
    return dictMethod(method.object, method.name, arguments);
  if (method.object.kind == ValueKind::List)
    return listMethod(method.object, method.name, arguments);
  if (arguments.positional.empty()) // loop.cycle
    return fail("cycle takes at least one argument");
  return arguments.positional[static_cast<size_t>(method.object.loop->index) % arguments.positional.size()];
}

TemplateValue TemplateEvaluator::dictMethod(const TemplateValue &object, const std::string &name,
                                            const TemplateArguments &arguments) {
  if (name == "items" || name == "keys" || name == "values")
    return members(object, name != "values", name != "keys");
  if (name == "copy") {
    TemplateValue result = heap.dict();
    if (pay(fuelFor(object)) && heap.spend(object.dict->items.size() * sizeof(TemplateDict::Member)))
      result.dict->items = object.dict->items;
    return result;
  }
  if (name != "get")
    return fail("'" + name + "' would change a mapping; templates cannot");
  const TemplateValue *key = arguments.get(0, "key"), *standard = arguments.get(1, "default");
  if (!key)
    return fail("get takes a key");
  const TemplateValue *found = member(object, *key);
  return found ? *found : standard ? *standard : heap.none();
}

TemplateValue TemplateEvaluator::listMethod(const TemplateValue &object, const std::string &name,
                                            const TemplateArguments &arguments) {
  if (name != "index" && name != "count")
    return fail("'" + name + "' would change a list; templates cannot");
  const TemplateValue *item = arguments.get(0, "value");
  if (!item)
    return fail(name + " takes a value");
  int64_t count = 0;
  for (size_t i = 0; i < object.list->items.size() && !failed(); ++i) {
    if (!equals(object.list->items[i], *item))
      continue;
    if (name == "index")
      return heap.integer(static_cast<int64_t>(i));
    ++count;
  }
  return name == "count" ? heap.integer(count) : fail("index of a value that is not in the list");
}

// Where `pattern` last begins in `text`, or npos: its first place where both are read backwards.
static size_t findLastText(std::string_view text, std::string_view pattern) {
  size_t at = findText(std::string(text.rbegin(), text.rend()), std::string(pattern.rbegin(), pattern.rend()));
  return at == std::string_view::npos ? at : text.size() - pattern.size() - at;
}

static bool matchesAt(std::string_view text, std::string_view affix, bool start) {
  return text.size() >= affix.size() && text.substr(start ? 0 : text.size() - affix.size(), affix.size()) == affix;
}

static bool allCharacters(std::string_view text, std::string_view what) {
  bool holds = !text.empty();
  for (size_t position = 0; position < text.size() && holds;) {
    char32_t c = nextCharacter(text, position);
    holds = what == "isspace"   ? isWhiteSpace(c)
            : what == "isdigit" ? isDecimalDigit(c)
            : what == "isalpha" ? isLetter(c)
                                : isLetter(c) || isDecimalDigit(c);
  }
  return holds;
}

TemplateValue TemplateEvaluator::textMethod(const TemplateText &text, const std::string &name,
                                            const TemplateArguments &arguments) {
  if (name == "strip" || name == "lstrip" || name == "rstrip")
    return heap.text(strip(text, arguments.get(0, "chars"), name != "rstrip", name != "lstrip"));
  if (name == "split" || name == "rsplit")
    return split(text, arguments, name == "rsplit");
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize")
    return heap.text(mapCase(text, caseMapping(name, CaseMapping::TitleOfLetters)));
  if (name == "isspace" || name == "isdigit" || name == "isalpha" || name == "isalnum")
    return heap.boolean((name == "isspace" || knowsLetters()) && allCharacters(text.bytes, name));
  if (name == "isupper" || name == "islower")
    return heap.boolean(test(name.substr(2), heap.text(text), TemplateArguments()));
  if (name == "splitlines") {
    std::vector<TemplateValue> lines;
    for (size_t begin = 0; begin < text.bytes.size() && pay();) {
      size_t end = std::min(text.bytes.find_first_of("\r\n", begin), text.bytes.size());
      lines.push_back(heap.text(text.substring(begin, end)));
      begin = end + (text.bytes.compare(end, 2, "\r\n") == 0 ? 2 : 1);
    }
    return heap.list(std::move(lines));
  }
  const TemplateValue *first = arguments.get(0, "prefix");
  if (name == "startswith" || name == "endswith") {
    std::vector<TemplateValue> affixes =
        first && first->kind == ValueKind::List ? first->list->items : arguments.positional;
    bool holds = false;
    for (const TemplateValue &affix : affixes) {
      if (affix.kind != ValueKind::String)
        return fail(name + " takes a string, not " + kindName(affix));
      if (!pay(fuelFor(affix)))
        break;
      holds |= matchesAt(text.bytes, affix.text->bytes, name == "startswith");
    }
    return heap.boolean(holds);
  }
  if (name == "join")
    return first ? join(*first, text, nullptr) : fail("join takes a list");
  if (name == "zfill") {
    int64_t width = integerArgument(arguments, 0, "width", 0), have = 0;
    for (size_t position = 0; position < text.bytes.size(); ++have)
      nextCharacter(text.bytes, position);
    const size_t sign = text.bytes[0] == '-' || text.bytes[0] == '+' ? 1 : 0;
    TemplateText out;
    out.append(text, 0, sign);
    for (; width > have && width < 1000; --width)
      out.append("0", true);
    out.append(text, sign, text.bytes.size());
    return heap.text(std::move(out));
  }
  if (name == "format")
    return fail("format is not supported");
  const TemplateText *other = textArgument(arguments, 0, "old");
  if (!other)
    return TemplateValue();
  if (name == "removeprefix" || name == "removesuffix") {
    bool start = name == "removeprefix", cuts = matchesAt(text.bytes, other->bytes, start);
    size_t size = text.bytes.size(), cut = cuts ? other->bytes.size() : 0;
    return heap.text(start ? text.substring(cut, size) : text.substring(0, size - cut));
  }
  if (name == "replace") {
    const TemplateText *to = textArgument(arguments, 1, "new");
    int64_t count = integerArgument(arguments, 2, "count", -1);
    return to ? heap.text(replace(text, *other, *to, count)) : TemplateValue();
  }
  if (name == "count") {
    int64_t count = 0;
    for (size_t at = 0;
         !other->bytes.empty() && (at = findText(text.bytes, other->bytes, at)) != std::string_view::npos;
         at += other->bytes.size())
      ++count;
    return heap.integer(count);
  }
  size_t at = name == "find" ? findText(text.bytes, other->bytes) : findLastText(text.bytes, other->bytes);
  if (at == std::string_view::npos)
    return heap.integer(-1);
  return heap.integer(std::count_if(text.bytes.begin(), text.bytes.begin() + static_cast<ptrdiff_t>(at),
                                    [](char c) { return (c & 0xC0) != 0x80; }));
}

} // namespace heddle
