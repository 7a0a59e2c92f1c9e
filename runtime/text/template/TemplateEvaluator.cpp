// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/template/TemplateEvaluator.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <ctime>

namespace heddle {

static constexpr const char *functionNames[] = {"range", "dict", "namespace", "raise_exception", "strftime_now"};

const TemplateValue *TemplateArguments::get(size_t index, std::string_view name) const {
  if (index < positional.size())
    return &positional[index];
  for (const auto &argument : named)
    if (argument.first == name)
      return &argument.second;
  return nullptr;
}

TemplateValue TemplateEvaluator::fail(const std::string &what) {
  if (error.empty())
    error = templateError(line, what);
  return TemplateValue();
}

bool TemplateEvaluator::pay(int64_t cost) {
  fuel = cost > fuel ? -1 : fuel - cost;
  if (fuel < 0)
    fail("the template takes too many steps: its fuel limit is used up");
  else if (heap.exhausted())
    fail("the template exceeds the limit of memory for its values");
  else if (depth > maxEvaluationDepth)
    fail("evaluation nests deeper than the limit of " + std::to_string(maxEvaluationDepth));
  return !failed();
}

bool TemplateEvaluator::payFor(const TemplateArguments &arguments) {
  for (const TemplateValue &value : arguments.positional)
    pay(fuelFor(value));
  for (const auto &argument : arguments.named)
    pay(fuelFor(argument.second));
  return !failed();
}

TemplateValue TemplateEvaluator::evaluate(int32_t index) {
  const TemplateNode &node = at(index);
  Deeper deeper(*this);
  line = node.line;
  if (!pay())
    return TemplateValue();
  switch (node.kind) {
  case NodeKind::String:
  case NodeKind::Integer:
  case NodeKind::Float:
  case NodeKind::True:
  case NodeKind::False:
  case NodeKind::None:
    return literal(node);
  case NodeKind::Absent:
    return TemplateValue();
  case NodeKind::Name:
    return lookUp(node.text);
  case NodeKind::Captured:
    return captured.back();
  case NodeKind::Attribute:
    return attribute(evaluate(child(node, 0)), node.text);
  case NodeKind::Index: {
    TemplateValue object = evaluate(child(node, 0));
    return this->index(object, evaluate(child(node, 1)));
  }
  case NodeKind::Slice:
    return slice(node);
  case NodeKind::Call:
    return call(node);
  case NodeKind::Filter:
  case NodeKind::Test:
    return apply(node);
  case NodeKind::Not:
  case NodeKind::Negate:
  case NodeKind::Plus:
  case NodeKind::And:
  case NodeKind::Or:
  case NodeKind::Conditional:
    return operation(node);
  case NodeKind::Binary:
    return binary(node);
  case NodeKind::Compare:
    return compare(node);
  case NodeKind::List:
  case NodeKind::Tuple:
  case NodeKind::Dict:
    return collection(node);
  default:
    return fail("a statement where an expression is expected");
  }
}

TemplateValue TemplateEvaluator::literal(const TemplateNode &node) {
  switch (node.kind) {
  case NodeKind::String:
    pay(fuelForBytes(node.text.size()));
    return heap.text(node.text, true);
  case NodeKind::Integer:
    return heap.integer(node.integer);
  case NodeKind::Float:
    return heap.number(node.number);
  case NodeKind::None:
    return heap.none();
  default:
    return heap.boolean(node.kind == NodeKind::True);
  }
}

TemplateValue TemplateEvaluator::apply(const TemplateNode &node) {
  TemplateValue value = evaluate(child(node, 0));
  TemplateArguments arguments = evaluateArguments(node);
  if (failed())
    return TemplateValue();
  return node.kind == NodeKind::Filter ? filter(node.text, value, arguments)
                                       : heap.boolean(test(node.text, value, arguments));
}

TemplateValue TemplateEvaluator::collection(const TemplateNode &node) {
  if (node.kind != NodeKind::Dict) {
    std::vector<TemplateValue> items;
    for (int32_t item : node.children)
      items.push_back(evaluate(item));
    return heap.list(std::move(items), node.kind == NodeKind::Tuple);
  }
  TemplateValue result = heap.dict();
  for (size_t i = 0; i + 1 < node.children.size() && !failed(); i += 2) {
    TemplateValue key = evaluate(child(node, i));
    put(result, key, evaluate(child(node, i + 1)));
  }
  return result;
}

void TemplateEvaluator::put(const TemplateValue &dict, const TemplateValue &key, const TemplateValue &value) {
  if (TemplateValue *found = member(dict, key))
    *found = value;
  else if (!failed() && heap.spend(sizeof(TemplateDict::Member)))
    dict.dict->items.emplace_back(key, value);
}

TemplateValue *TemplateEvaluator::find(Scope &scope, std::string_view name) {
  size_t i = scope.size();
  while (i > 0 && scope[i - 1].first != name)
    --i;
  pay(fuelForElements(scope.size() - i));
  return i ? &scope[i - 1].second : nullptr;
}

TemplateValue TemplateEvaluator::lookUp(const std::string &name) {
  for (size_t i = scopes.size(); i-- > visible;)
    if (const TemplateValue *found = find(scopes[i], name))
      return *found;
  if (const TemplateValue *found = visible ? find(scopes.front(), name) : nullptr)
    return *found;
  for (int32_t i = 0; i < static_cast<int32_t>(sizeof functionNames / sizeof *functionNames); ++i)
    if (name == functionNames[i]) {
      TemplateValue function;
      function.kind = ValueKind::Function;
      function.node = i;
      return function;
    }
  return TemplateValue();
}

static bool isMethodOf(ValueKind kind, std::string_view name) {
  static constexpr std::string_view ofText =
      " strip lstrip rstrip split rsplit splitlines startswith endswith upper lower title "
      "capitalize replace find rfind count join isdigit isalpha isalnum isspace isupper islower "
      "removeprefix removesuffix format zfill ";
  static constexpr std::string_view ofDict = " items keys values get copy update pop ";
  static constexpr std::string_view ofList = " index count append extend insert pop ";
  std::string_view names = kind == ValueKind::String ? ofText
                           : kind == ValueKind::Dict ? ofDict
                           : kind == ValueKind::List ? ofList
                                                     : "";
  size_t found = names.find(name);
  return !name.empty() && found != std::string_view::npos && names[found - 1] == ' ' &&
         names[found + name.size()] == ' ';
}

// object.name: a method first, then a member, as Jinja looks.
TemplateValue TemplateEvaluator::attribute(const TemplateValue &object, const std::string &name) {
  if (failed())
    return TemplateValue();
  if (object.kind == ValueKind::Undefined)
    return fail("'" + name + "' of something undefined");
  if (object.kind == ValueKind::Loop)
    return loopAttribute(*object.loop, name);
  if (!object.isNamespace && isMethodOf(object.kind, name))
    return heap.method(object, name);
  if (object.kind != ValueKind::Dict)
    return TemplateValue();
  const TemplateValue *found = member(object, name);
  return found ? *found : TemplateValue();
}

TemplateValue TemplateEvaluator::loopAttribute(const TemplateLoop &loop, const std::string &name) {
  int64_t length = static_cast<int64_t>(loop.items->items.size()), i = loop.index;
  if (name == "index0")
    return heap.integer(i);
  if (name == "index")
    return heap.integer(i + 1);
  if (name == "revindex0")
    return heap.integer(length - i - 1);
  if (name == "revindex")
    return heap.integer(length - i);
  if (name == "first")
    return heap.boolean(i == 0);
  if (name == "last")
    return heap.boolean(i == length - 1);
  if (name == "length")
    return heap.integer(length);
  if (name == "depth")
    return heap.integer(loop.depth);
  if (name == "depth0")
    return heap.integer(loop.depth - 1);
  if (name == "previtem")
    return i > 0 ? loop.items->items[static_cast<size_t>(i - 1)] : TemplateValue();
  if (name == "nextitem")
    return i + 1 < length ? loop.items->items[static_cast<size_t>(i + 1)] : TemplateValue();
  TemplateValue self;
  self.kind = ValueKind::Loop;
  self.loop = const_cast<TemplateLoop *>(&loop);
  return name == "cycle" ? heap.method(self, name) : fail("loop." + name + " is not supported");
}

// Byte offsets of the characters of `text`, and its end.
static std::vector<uint32_t> characterOffsets(const TemplateText &text) {
  std::vector<uint32_t> offsets;
  for (size_t position = 0; position < text.bytes.size(); nextCharacter(text.bytes, position))
    offsets.push_back(static_cast<uint32_t>(position));
  offsets.push_back(static_cast<uint32_t>(text.bytes.size()));
  return offsets;
}

TemplateValue TemplateEvaluator::index(const TemplateValue &object, const TemplateValue &key) {
  if (failed())
    return TemplateValue();
  if (object.kind == ValueKind::Undefined)
    return fail("a member of something undefined");
  bool hasIndex = key.kind == ValueKind::Integer || key.kind == ValueKind::Bool;
  int64_t i = hasIndex ? (key.kind == ValueKind::Bool ? key.boolean : key.integer) : 0;
  if (object.kind == ValueKind::Dict) {
    const TemplateValue *found = member(object, key);
    return found ? *found : TemplateValue();
  }
  if (object.kind == ValueKind::List && hasIndex) {
    int64_t size = static_cast<int64_t>(object.list->items.size());
    i += i < 0 ? size : 0;
    return i >= 0 && i < size ? object.list->items[static_cast<size_t>(i)] : TemplateValue();
  }
  if (object.kind == ValueKind::String && hasIndex) {
    if (!pay(fuelFor(object)))
      return TemplateValue();
    std::vector<uint32_t> offsets = characterOffsets(*object.text);
    int64_t size = static_cast<int64_t>(offsets.size()) - 1;
    i += i < 0 ? size : 0;
    if (i < 0 || i >= size)
      return TemplateValue();
    return heap.text(object.text->substring(offsets[static_cast<size_t>(i)], offsets[static_cast<size_t>(i + 1)]));
  }
  if (key.kind == ValueKind::String)
    return attribute(object, key.text->bytes);
  return TemplateValue();
}

TemplateValue TemplateEvaluator::slice(const TemplateNode &node) {
  TemplateValue object = evaluate(child(node, 0));
  int64_t bounds[3] = {0, 0, 1};
  bool given[3] = {};
  for (int i = 0; i < 3 && !failed(); ++i) {
    TemplateValue bound = evaluate(child(node, static_cast<size_t>(i + 1)));
    if (bound.kind == ValueKind::Undefined || bound.kind == ValueKind::None)
      continue;
    if (bound.kind != ValueKind::Integer)
      return fail("a slice bound that is " + std::string(kindName(bound)));
    given[i] = true;
    bounds[i] = bound.integer;
  }
  if (failed())
    return TemplateValue();
  if (object.kind != ValueKind::String && object.kind != ValueKind::List)
    return fail("a slice of " + std::string(kindName(object)));
  if (!bounds[2])
    return fail("a slice with step zero");
  if (!pay(fuelFor(object)))
    return TemplateValue();
  bool isText = object.kind == ValueKind::String;
  std::vector<uint32_t> offsets = isText ? characterOffsets(*object.text) : std::vector<uint32_t>();
  int64_t size = isText ? static_cast<int64_t>(offsets.size()) - 1 : static_cast<int64_t>(object.list->items.size());
  int64_t step = bounds[2] < -size - 1 ? -size - 1 : bounds[2] > size + 1 ? size + 1 : bounds[2];
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  auto clamp = [&](int64_t value) {
    value += value < 0 ? size : 0;
    return value < low ? low : value > high ? high : value;
  };
  int64_t begin = given[0] ? clamp(bounds[0]) : step > 0 ? low : high;
  int64_t end = given[1] ? clamp(bounds[1]) : step > 0 ? high : low;
  if (isText && step == 1)
    return heap.text(
        begin < end ? object.text->substring(offsets[static_cast<size_t>(begin)], offsets[static_cast<size_t>(end)])
                    : TemplateText());
  TemplateText text;
  std::vector<TemplateValue> items;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    size_t k = static_cast<size_t>(i);
    if (isText)
      text.append(*object.text, offsets[k], offsets[k + 1]);
    else
      items.push_back(object.list->items[k]);
  }
  return isText ? heap.text(std::move(text)) : heap.list(std::move(items), object.isTuple);
}

TemplateArguments TemplateEvaluator::evaluateArguments(const TemplateNode &node) {
  TemplateArguments arguments;
  for (size_t i = 1; i < node.children.size() && !failed(); ++i) {
    const TemplateNode &argument = at(child(node, i));
    if (argument.kind == NodeKind::Argument)
      arguments.named.emplace_back(argument.text, evaluate(argument.children[0]));
    else
      arguments.positional.push_back(evaluate(child(node, i)));
  }
  return arguments;
}

TemplateValue TemplateEvaluator::call(const TemplateNode &node) {
  TemplateValue callee = evaluate(child(node, 0));
  TemplateArguments arguments = evaluateArguments(node);
  if (failed())
    return TemplateValue();
  if (callee.kind == ValueKind::Macro)
    return callMacro(callee.node, arguments);
  if (callee.kind == ValueKind::Method)
    return callMethod(*callee.method, arguments);
  if (callee.kind == ValueKind::Function)
    return callFunction(callee.node, arguments);
  const TemplateNode &name = at(child(node, 0));
  return fail((name.text.empty() ? "" : "'" + name.text + "' is ") + std::string(kindName(callee)) +
              ", it cannot be called");
}

TemplateValue TemplateEvaluator::callFunction(int32_t function, const TemplateArguments &arguments) {
  std::string_view name = functionNames[function];
  if (name == "range")
    return range(arguments);
  if (name == "strftime_now")
    return now(arguments);
  if (name == "raise_exception") {
    const TemplateValue *message = arguments.get(0, "message");
    std::string text = message ? toText(*message).bytes : "";
    for (char &c : text)
      c = static_cast<uint8_t>(c) < 0x20 || c == 0x7F ? ' ' : c;
    if (text.size() > 1000)
      for (text.resize(1000); findInvalidUtf8(text) != std::string_view::npos; text.pop_back())
        ;
    return fail("the template refuses: " + text);
  }
  TemplateValue result = heap.dict();
  result.isNamespace = name == "namespace";
  if (arguments.positional.size() > 1)
    return fail(std::string(name) + " takes one mapping, not " + std::to_string(arguments.positional.size()));
  const TemplateValue *base = arguments.positional.empty() ? nullptr : &arguments.positional[0];
  if (base && base->kind == ValueKind::Dict) {
    if (pay(fuelFor(*base)) && heap.spend(base->dict->items.size() * sizeof(TemplateDict::Member)))
      result.dict->items = base->dict->items;
  } else if (base && (base->kind == ValueKind::List || base->kind == ValueKind::String)) {
    // Pairs, as Python's dict takes them.
    for (const TemplateValue &item : elements(*base)) {
      std::vector<TemplateValue> pair = elements(item);
      if (!failed() && pair.size() != 2)
        fail(std::string(name) + " takes pairs, not " + std::to_string(pair.size()) + " values");
      if (failed())
        return TemplateValue();
      put(result, pair[0], pair[1]);
    }
  } else if (base) {
    return fail(std::string(name) + " takes a mapping or pairs, not " + kindName(*base));
  }
  for (const auto &argument : arguments.named)
    put(result, heap.text(argument.first, true), argument.second);
  return result;
}

TemplateValue TemplateEvaluator::range(const TemplateArguments &arguments) {
  int64_t bounds[3] = {0, 0, 1};
  size_t count = arguments.positional.size();
  for (size_t i = 0; i < count && i < 3; ++i) {
    if (arguments.positional[i].kind != ValueKind::Integer)
      return fail("range needs integers, not " + std::string(kindName(arguments.positional[i])));
    bounds[count == 1 ? 1 : i] = arguments.positional[i].integer;
  }
  int64_t begin = bounds[0], end = bounds[1], step = bounds[2], span = 0;
  if (count < 1 || count > 3 || step == 0)
    return fail("range takes one to three integers, the third not zero");
  if (__builtin_sub_overflow(end, begin, &span) || span == INT64_MIN || step == INT64_MIN || (span / step) > 1000000)
    return fail("range of " + std::to_string(begin) + " to " + std::to_string(end) +
                " exceeds the limit of 1000000 elements");
  std::vector<TemplateValue> items;
  bool overflow = false;
  for (int64_t i = begin; !overflow && (step > 0 ? i < end : i > end) && pay();
       overflow = __builtin_add_overflow(i, step, &i))
    items.push_back(heap.integer(i));
  return heap.list(std::move(items));
}

TemplateValue TemplateEvaluator::now(const TemplateArguments &arguments) {
  const TemplateText *format = textArgument(arguments, 0, "format");
  if (!format)
    return TemplateValue();
  time_t seconds = time(nullptr);
  tm local;
  char text[256] = "";
  if (format->bytes.size() > 100 || !localtime_r(&seconds, &local) ||
      !strftime(text, sizeof text, format->bytes.c_str(), &local))
    return fail("strftime_now with a format that gives no text");
  return heap.text(text, true);
}

std::vector<TemplateValue> TemplateEvaluator::elements(const TemplateValue &value) {
  std::vector<TemplateValue> items;
  if (failed() || value.kind == ValueKind::Undefined)
    return items;
  if (!pay(fuelFor(value)))
    return items;
  if (value.kind == ValueKind::List) {
    items = value.list->items;
  } else if (value.kind == ValueKind::Dict) {
    for (const auto &member : value.dict->items)
      items.push_back(member.first);
  } else if (value.kind == ValueKind::String) {
    for (size_t begin = 0, end = 0; begin < value.text->bytes.size() && pay(); begin = end) {
      nextCharacter(value.text->bytes, end);
      items.push_back(heap.text(value.text->substring(begin, end)));
    }
  } else {
    fail(std::string(kindName(value)) + " cannot be iterated");
  }
  return items;
}

} // namespace heddle
