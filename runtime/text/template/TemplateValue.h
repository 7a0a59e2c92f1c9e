// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of a template. Strings know which of their bytes stem from the messages, and keep knowing through every operation.
#ifndef HEDDLE_RUNTIME_TEXT_TEMPLATE_TEMPLATEVALUE_H
#define HEDDLE_RUNTIME_TEXT_TEMPLATE_TEMPLATEVALUE_H

#include "bytes/Json.h"
#include "runtime/text/tokenizer/AddedTokens.h"

#include <memory>

namespace heddle {

// UTF-8 with the ranges (ordered, disjoint, not touching) that users wrote.
struct TemplateText {
  std::string bytes;
  std::vector<TextRange> untrusted;

  TemplateText() = default;
  TemplateText(std::string_view text, bool trusted) { append(text, trusted); }
  void append(std::string_view text, bool trusted);
  void append(const TemplateText &other) { append(other, 0, other.bytes.size()); }
  // Appends bytes [begin, end) of `other`.
  void append(const TemplateText &other, size_t begin, size_t end);
  TemplateText substring(size_t begin, size_t end) const;
  bool trusted() const { return untrusted.empty(); }
};

enum class ValueKind : uint8_t {
  Undefined,
  None,
  Bool,
  Integer,
  Float,
  String,
  List,
  Dict,
  Loop,
  Macro,
  Function,
  Method
};

struct TemplateList;
struct TemplateDict;
struct TemplateLoop;
struct TemplateMethod;

// A number, or a pointer to something that the heap owns until rendering ends.
struct TemplateValue {
  ValueKind kind = ValueKind::Undefined;
  bool isTuple = false;     // of a List
  bool isNamespace = false; // of a Dict
  union {
    bool boolean;
    int64_t integer;
    double number;
    const TemplateText *text;
    TemplateList *list;
    TemplateDict *dict;
    TemplateLoop *loop;
    TemplateMethod *method;
    int32_t node; // Macro: its node; Function: its index
  };
  TemplateValue() : integer(0) {}
};

struct TemplateList {
  std::vector<TemplateValue> items;
};

// In order of insertion. Look-ups are linear, from the back (a key that JSON has twice has its last value), and cost fuel.
struct TemplateDict {
  using Member = std::pair<TemplateValue, TemplateValue>;
  std::vector<Member> items;
};

struct TemplateLoop {
  const TemplateList *items;
  int64_t index;
  int64_t depth;
};

// "abc".strip before it is called.
struct TemplateMethod {
  TemplateValue object;
  std::string name;
};

// Owns what values point at, and bounds it: `failed` is set once `limit` bytes are spent.
class TemplateHeap {
public:
  explicit TemplateHeap(size_t limit) : limit(limit) {}
  TemplateValue boolean(bool value);
  TemplateValue integer(int64_t value);
  TemplateValue number(double value);
  TemplateValue none();
  TemplateValue text(TemplateText text);
  TemplateValue text(std::string_view bytes, bool trusted) { return text(TemplateText(bytes, trusted)); }
  TemplateValue list(std::vector<TemplateValue> items, bool isTuple = false);
  TemplateValue dict();
  TemplateValue loop(TemplateLoop loop);
  TemplateValue method(TemplateValue object, std::string_view name);
  // `value` of a message or a setting; strings in it are untrusted, but for a plain word as a "role".
  TemplateValue fromJson(JsonValue value, bool isRole = false);
  bool spend(size_t bytes);
  bool exhausted() const { return used > limit; }

private:
  size_t limit, used = 0;
  std::vector<std::unique_ptr<TemplateText>> texts;
  std::vector<std::unique_ptr<TemplateList>> lists;
  std::vector<std::unique_ptr<TemplateDict>> dicts;
  std::vector<std::unique_ptr<TemplateLoop>> loops;
  std::vector<std::unique_ptr<TemplateMethod>> methods;
};

bool isTrue(const TemplateValue &value);
bool isNumber(const TemplateValue &value); // booleans too, as in Python
double asNumber(const TemplateValue &value);
const char *kindName(const TemplateValue &value);

// Fuel for reading this much once; a step of the evaluator costs 1.
int64_t fuelForBytes(size_t bytes);
int64_t fuelForElements(size_t count);
// Fuel for reading the bytes of a string, or the elements of a list or mapping but not what is in them.
int64_t fuelFor(const TemplateValue &value);

// Python's ==. Deep values beyond 64 levels are unequal; `fuel` pays for what is compared.
bool equal(const TemplateValue &a, const TemplateValue &b, int64_t &fuel, int depth = 0);
// The value of `key`, which may be of any kind as the keys of `dict` are, or null; `fuel` pays for what is searched.
TemplateValue *findMember(TemplateDict &dict, std::string_view key, int64_t &fuel);
TemplateValue *findMember(TemplateDict &dict, const TemplateValue &key, int64_t &fuel);

// Where `pattern` first begins in `text` from byte `from` on, or npos: in time linear in both, which std::string's find is not.
size_t findText(std::string_view text, std::string_view pattern, size_t from = 0);

} // namespace heddle

#endif
