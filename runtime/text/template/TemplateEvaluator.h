// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates a parsed template. Once `failed()`, every function returns at once and its value means nothing.
//
// Fuel bounds the time and the heap the memory of a rendering. Evaluating a node costs 1; an operation whose work grows with its
// operands costs fuelForBytes and fuelForElements of them more, and what it does once per element or character costs each time.
#ifndef HEDDLE_RUNTIME_TEXT_TEMPLATE_TEMPLATEEVALUATOR_H
#define HEDDLE_RUNTIME_TEXT_TEMPLATE_TEMPLATEEVALUATOR_H

#include "runtime/text/template/TemplateProgram.h"
#include "runtime/text/template/TemplateValue.h"

namespace heddle {

// What stands in the parentheses of a call, a filter or a test.
struct TemplateArguments {
  std::vector<TemplateValue> positional;
  std::vector<std::pair<std::string, TemplateValue>> named;

  // The argument at `index` or called `name`, or null.
  const TemplateValue *get(size_t index, std::string_view name) const;
};

// TitleOfLetters: Python's str.title, which raises every letter behind what is no letter. TitleOfWords: Jinja's filter, which raises
// what starts a word.
enum class CaseMapping : uint8_t { Lower, Upper, Capitalize, TitleOfLetters, TitleOfWords };
// That of the method or filter `name`.
CaseMapping caseMapping(std::string_view name, CaseMapping title);

class TemplateEvaluator {
public:
  TemplateEvaluator(const TemplateProgram &program, TemplateHeap &heap, int64_t fuel, size_t maxOutput)
      : program(program), heap(heap), fuel(fuel), maxOutput(maxOutput), scopes(1) {}

  // Of several with one name, the last counts.
  void setVariable(std::string_view name, TemplateValue value) {
    heap.spend(sizeof(Scope::value_type) + name.size());
    scopes.front().emplace_back(std::string(name), value);
  }
  // Appends the template's text; false with a message that names the line.
  bool run(TemplateText &out, std::string &error);

private:
  static constexpr uint32_t maxEvaluationDepth = 1000;
  using Scope = std::vector<std::pair<std::string, TemplateValue>>;
  enum class Flow : uint8_t { Next, Break, Continue };
  // A place on the evaluator's stack; pay() fails once there are too many. Errors name the line of the innermost node: the one around
  // it gets its line back.
  struct Deeper {
    explicit Deeper(TemplateEvaluator &evaluator) : evaluator(evaluator), line(evaluator.line) { ++evaluator.depth; }
    ~Deeper() {
      --evaluator.depth;
      evaluator.line = line;
    }
    TemplateEvaluator &evaluator;
    const uint32_t line;
  };

  bool failed() const { return !error.empty(); }
  TemplateValue fail(const std::string &what);
  bool pay(int64_t cost = 1);
  bool payFor(const TemplateArguments &arguments);
  const TemplateNode &at(int32_t node) const { return program.nodes[static_cast<size_t>(node)]; }
  int32_t child(const TemplateNode &node, size_t index) const { return node.children[index]; }
  TemplateValue *find(Scope &scope, std::string_view name); // null if there is none
  void assign(Scope &scope, std::string_view name, TemplateValue value);
  bool equals(const TemplateValue &a, const TemplateValue &b) {
    bool same = equal(a, b, fuel);
    return pay(0) && same;
  }
  // The value of a key of the mapping `dict`, or null.
  template <typename Key> TemplateValue *member(const TemplateValue &dict, const Key &key) {
    TemplateValue *found = findMember(*dict.dict, key, fuel);
    return pay(0) ? found : nullptr;
  }
  // Adds a member, or gives the one that has this key another value.
  void put(const TemplateValue &dict, const TemplateValue &key, const TemplateValue &value);

  // Statements (TemplateStatements.cpp).
  Flow execute(int32_t node, TemplateText &out);
  void checkOutput(const TemplateText &out);
  Flow executeBlock(const TemplateNode &node, TemplateText &out);
  Flow executeIf(const TemplateNode &node, TemplateText &out);
  TemplateValue capture(int32_t block); // what it prints
  Flow executeFor(const TemplateNode &node, TemplateText &out);
  void executeSet(const TemplateNode &node);
  void store(int32_t target, TemplateValue value);
  void unpack(const std::vector<int32_t> &targets, size_t count, TemplateValue value);
  void print(const TemplateValue &value, TemplateText &out);
  TemplateValue callMacro(int32_t node, const TemplateArguments &arguments);

  // Expressions (TemplateEvaluator.cpp).
  TemplateValue evaluate(int32_t node);
  TemplateValue literal(const TemplateNode &node);
  TemplateValue apply(const TemplateNode &node); // a filter or a test
  TemplateValue collection(const TemplateNode &node);
  TemplateValue lookUp(const std::string &name);
  TemplateValue attribute(const TemplateValue &object, const std::string &name);
  TemplateValue loopAttribute(const TemplateLoop &loop, const std::string &name);
  TemplateValue index(const TemplateValue &object, const TemplateValue &key);
  TemplateValue slice(const TemplateNode &node);
  TemplateValue call(const TemplateNode &node);
  TemplateValue callFunction(int32_t function, const TemplateArguments &arguments);
  TemplateValue range(const TemplateArguments &arguments);
  TemplateValue now(const TemplateArguments &arguments);
  TemplateArguments evaluateArguments(const TemplateNode &node);
  // The elements that a loop over `value` sees: keys of a mapping, characters of a string.
  std::vector<TemplateValue> elements(const TemplateValue &value);

  // Text (TemplateValueText.cpp). What is written is paid for before it is.
  void emit(std::string_view text, bool trusted, TemplateText &out);
  // Python's str(), or repr() for strings if `quoted`.
  void write(const TemplateValue &value, bool quoted, TemplateText &out, int level = 0);
  TemplateText toText(const TemplateValue &value);
  struct JsonStyle;
  TemplateValue json(const TemplateValue &value, const TemplateArguments &arguments);
  void writeJson(const TemplateValue &value, const JsonStyle &style, TemplateText &out, int level);
  void writeJsonKey(const TemplateValue &key, const JsonStyle &style, TemplateText &out);
  void writeJsonDict(const TemplateValue &dict, const JsonStyle &style, TemplateText &out, int level);
  void breakLine(const JsonStyle &style, int level, TemplateText &out);

  // Operators (TemplateOperators.cpp).
  TemplateValue operation(const TemplateNode &node); // with its own rule which operands are evaluated, or a sign
  TemplateValue binary(const TemplateNode &node);
  TemplateValue arithmetic(const std::string &op, const TemplateValue &left, const TemplateValue &right);
  TemplateValue integerArithmetic(const std::string &op, int64_t a, int64_t b);
  TemplateValue repeat(const TemplateValue &value, int64_t count);
  TemplateValue compare(const TemplateNode &node);
  bool less(const TemplateValue &left, const TemplateValue &right);
  // Whether `left` comes before `right`. Values without an order are an error, and so is NaN, which `<` takes.
  bool precedes(const TemplateValue &left, const TemplateValue &right);
  // The indices of `keys` from the least to the greatest, or `descending`; equal ones stay in their order.
  std::vector<size_t> order(const std::vector<TemplateValue> &keys, bool descending);
  bool contains(const TemplateValue &container, const TemplateValue &item);

  // TemplateFilters.cpp, TemplateTests.cpp, TemplateMethods.cpp.
  TemplateValue filter(const std::string &name, const TemplateValue &value, const TemplateArguments &arguments);
  TemplateValue textFilter(const std::string &name, const TemplateValue &value, const TemplateArguments &arguments);
  TemplateValue listFilter(const std::string &name, const TemplateValue &value, const TemplateArguments &arguments);
  TemplateValue numberFilter(const std::string &name, const TemplateValue &value, const TemplateArguments &arguments);
  TemplateValue select(const std::string &name, const TemplateValue &value, const TemplateArguments &arguments);
  std::vector<TemplateValue> keysOf(const std::vector<TemplateValue> &items, const TemplateValue *caseSensitive,
                                    const TemplateValue *attributeName);
  TemplateValue inOrder(const std::vector<TemplateValue> &items, const std::vector<TemplateValue> &keys,
                        const TemplateValue *reverse);
  TemplateValue dictsort(const TemplateValue &value, const TemplateArguments &arguments);
  TemplateValue orderingFilter(const std::string &name, const std::vector<TemplateValue> &items,
                               const TemplateArguments &arguments);
  TemplateValue map(const std::vector<TemplateValue> &items, const TemplateArguments &arguments);
  TemplateValue join(const TemplateValue &value, const TemplateText &separator, const TemplateValue *attributeName);
  TemplateValue path(const TemplateValue &value, const TemplateValue &attributeName);
  bool test(const std::string &name, const TemplateValue &value, const TemplateArguments &arguments);
  TemplateValue callMethod(const TemplateMethod &method, const TemplateArguments &arguments);
  TemplateValue textMethod(const TemplateText &text, const std::string &name, const TemplateArguments &arguments);
  TemplateValue dictMethod(const TemplateValue &object, const std::string &name, const TemplateArguments &arguments);
  TemplateValue listMethod(const TemplateValue &object, const std::string &name, const TemplateArguments &arguments);
  TemplateValue split(const TemplateText &text, const TemplateArguments &arguments, bool fromRight);
  TemplateValue members(const TemplateValue &dict, bool keys, bool values);
  // Fails the evaluation where the program has no tables of letters: a template that finds a name for them which textPartsOf() does not see.
  bool knowsLetters();
  TemplateText mapCase(const TemplateText &text, CaseMapping mapping);
  TemplateText strip(const TemplateText &text, const TemplateValue *characters, bool left, bool right);
  TemplateText replace(const TemplateText &text, const TemplateText &from, const TemplateText &to, int64_t count);
  const TemplateText *textArgument(const TemplateArguments &arguments, size_t index, std::string_view name);
  int64_t integerArgument(const TemplateArguments &arguments, size_t index, std::string_view name, int64_t standard);

  const TemplateProgram &program;
  TemplateHeap &heap;
  int64_t fuel;
  size_t maxOutput;
  std::vector<Scope> scopes; // the first is the template's own
  size_t visible = 0;        // scopes from here on, and the first, are in sight
  std::vector<TemplateValue> captured;
  std::string error;
  uint32_t line = 1, depth = 0;
  int64_t loopDepth = 0;
};

} // namespace heddle

#endif
