// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/TemplateLexer.h"
#include "runtime/TemplateProgram.h"

#include <cstdlib>
#include <initializer_list>

namespace heddle {

using Kind = TemplateTokenKind;

namespace {

// Recursive descent over tokens. A parse function returns the index of its node, or -1 once `error` is set. Nesting is counted
// before every recursion, and the depth of every tree that evaluation will walk is bounded.
class TemplateParser {
public:
  TemplateParser(std::string_view source, TemplateProgram &program, std::string &error)
      : lexer(source), program(program), error(error) {}

  bool parse() {
    if (!advance())
      return false;
    program.root = parseBlock({});
    return program.root >= 0;
  }

private:
  static constexpr uint32_t maxNesting = 64, maxTreeDepth = 256;
  static constexpr size_t maxNodes = 200000;
  using Words = std::initializer_list<std::string_view>;

  // Nesting of the recursive parse functions, which it counts for as long as it lives.
  struct Nested {
    explicit Nested(uint32_t &level) : level(level) { ++level; }
    ~Nested() { --level; }
    uint32_t &level;
  };

  int32_t fail(const std::string &what) {
    if (error.empty())
      error = templateError(token.line, what);
    return -1;
  }
  bool advance() {
    std::string what;
    if (lexer.next(token, what))
      return true;
    fail(what);
    return false;
  }
  bool isOperator(std::string_view text) const { return token.kind == Kind::Operator && token.text == text; }
  bool isName(std::string_view text) const { return token.kind == Kind::Name && token.text == text; }
  bool accept(std::string_view text) { return isOperator(text) && advance(); }
  bool acceptName(std::string_view text) { return isName(text) && advance(); }
  bool expect(std::string_view text) {
    if (isOperator(text))
      return advance();
    fail("expected '" + std::string(text) + "'" + found());
    return false;
  }
  std::string found() const {
    if (token.kind == Kind::End || token.kind == Kind::BlockEnd || token.kind == Kind::PrintEnd)
      return ", found the end of the tag";
    return ", found '" + token.text.substr(0, 40) + "'";
  }

  int32_t make(NodeKind kind, std::vector<int32_t> children = {}, std::string text = {}) {
    uint32_t depth = 0;
    for (int32_t child : children) {
      if (child < 0)
        return -1;
      depth = program.nodes[child].depth > depth ? program.nodes[child].depth : depth;
    }
    if (depth >= maxTreeDepth)
      return fail("nesting exceeds the limit of " + std::to_string(maxTreeDepth));
    if (program.nodes.size() >= maxNodes)
      return fail("the template is too large: more than " + std::to_string(maxNodes) + " parts");
    program.nodes.push_back({kind, token.line, depth + 1, std::move(text), std::move(children)});
    return static_cast<int32_t>(program.nodes.size() - 1);
  }

  // Statements.
  int32_t parseBlock(Words ends);
  int32_t parseStatement();
  int32_t parseIf();
  int32_t parseFor();
  int32_t parseSet();
  int32_t parseMacro();
  int32_t parseFilterBlock();
  int32_t parseTarget();
  bool endTag() {
    if (token.kind == Kind::BlockEnd)
      return advance();
    fail("expected the end of the block" + found());
    return false;
  }
  bool endWord(const char *word) {
    if (acceptName(word))
      return endTag();
    fail("expected " + std::string(word) + found());
    return false;
  }

  // Expressions, from the loosest to the tightest.
  int32_t parseExpression();
  int32_t parseOr();
  int32_t parseAnd();
  int32_t parseNot();
  int32_t parseCompare();
  int32_t parseBinary(int level);
  int32_t parsePower();
  int32_t parseUnary(bool withFilters);
  int32_t parsePostfix(int32_t value);
  int32_t parsePrimary();
  int32_t parseSubscript(int32_t object);
  int32_t parseFilter(int32_t value);
  int32_t parseTest(int32_t value);
  int32_t parseTuple();
  int32_t parseBrackets();
  bool parseArguments(std::vector<int32_t> &children);

  TemplateLexer lexer;
  TemplateProgram &program;
  std::string &error;
  TemplateToken token;
  uint32_t nesting = 0;
  uint32_t loops = 0;
};

} // namespace

// Statements up to one of `ends` (whose word is the current token then) or the end of the template.
int32_t TemplateParser::parseBlock(Words ends) {
  Nested nested(nesting);
  if (nesting > maxNesting)
    return fail("blocks nest deeper than the limit of " + std::to_string(maxNesting));
  std::vector<int32_t> statements;
  uint32_t openedAt = token.line;
  for (;;) {
    if (token.kind == Kind::End) {
      if (ends.size() == 0)
        break;
      return fail("unexpected end: the block of line " + std::to_string(openedAt) + " is unclosed, expected " +
                  std::string(*(ends.end() - 1)));
    }
    int32_t statement;
    if (token.kind == Kind::Text) {
      statement = make(NodeKind::Text, {}, token.text);
      if (!advance())
        return -1;
    } else if (token.kind == Kind::PrintBegin) {
      if (!advance())
        return -1;
      statement = make(NodeKind::Print, {parseTuple()});
      if (statement < 0)
        return -1;
      if (token.kind != Kind::PrintEnd)
        return fail("expected '}}'" + found());
      if (!advance())
        return -1;
    } else {
      if (!advance())
        return -1;
      for (std::string_view end : ends)
        if (isName(end))
          return make(NodeKind::Block, std::move(statements));
      statement = parseStatement();
    }
    if (statement < 0)
      return -1;
    statements.push_back(statement);
  }
  return make(NodeKind::Block, std::move(statements));
}

int32_t TemplateParser::parseStatement() {
  if (token.kind != Kind::Name)
    return fail("expected a statement" + found());
  std::string word = token.text;
  if (word == "if")
    return parseIf();
  if (word == "for")
    return parseFor();
  if (word == "set")
    return parseSet();
  if (word == "macro")
    return parseMacro();
  if (word == "filter")
    return parseFilterBlock();
  if (word == "generation") {
    if (!advance() || !endTag())
      return -1;
    int32_t body = parseBlock({"endgeneration"});
    return body >= 0 && endWord("endgeneration") ? body : -1;
  }
  if (word == "break" || word == "continue") {
    if (!loops)
      return fail(word + " outside of a loop");
    int32_t node = make(word == "break" ? NodeKind::Break : NodeKind::Continue);
    return advance() && endTag() ? node : -1;
  }
  return fail("statement '" + word.substr(0, 40) +
              "' is not supported (if, for, set, macro, filter, generation, raw, break, continue)");
}

int32_t TemplateParser::parseIf() {
  std::vector<int32_t> children;
  while (acceptName("if") || acceptName("elif")) {
    int32_t condition = parseExpression();
    if (condition < 0 || !endTag())
      return -1;
    int32_t body = parseBlock({"elif", "else", "endif"});
    if (body < 0)
      return -1;
    children.push_back(condition);
    children.push_back(body);
  }
  if (acceptName("else")) {
    if (!endTag())
      return -1;
    int32_t body = parseBlock({"endif"});
    if (body < 0)
      return -1;
    children.push_back(body);
  }
  return error.empty() && endWord("endif") ? make(NodeKind::If, std::move(children)) : -1;
}

int32_t TemplateParser::parseTarget() {
  if (token.kind != Kind::Name)
    return fail("expected a name" + found());
  int32_t target = make(NodeKind::Name, {}, token.text);
  if (!advance())
    return -1;
  if (!accept("."))
    return error.empty() ? target : -1;
  std::string attribute = token.text;
  if (token.kind != Kind::Name)
    return fail("expected an attribute's name" + found());
  return advance() ? make(NodeKind::Attribute, {target}, attribute) : -1;
}

int32_t TemplateParser::parseFor() {
  if (!advance())
    return -1;
  bool parenthesis = accept("(");
  std::vector<int32_t> targets;
  do {
    int32_t target = parseTarget();
    if (target < 0)
      return -1;
    if (program.nodes[target].kind != NodeKind::Name)
      return fail("a loop variable is a plain name");
    targets.push_back(target);
  } while (accept(","));
  if (parenthesis && !expect(")"))
    return -1;
  if (!acceptName("in"))
    return fail("expected 'in'" + found());
  int32_t sequence = parseOr();
  int32_t condition = acceptName("if") ? parseExpression() : make(NodeKind::Absent);
  if (sequence < 0 || condition < 0)
    return -1;
  if (isName("recursive"))
    return fail("recursive loops are not supported");
  if (!endTag())
    return -1;
  ++loops;
  int32_t body = parseBlock({"else", "endfor"});
  --loops;
  if (body < 0)
    return -1;
  int32_t otherwise = make(NodeKind::Absent);
  if (acceptName("else")) {
    if (!endTag())
      return -1;
    otherwise = parseBlock({"endfor"});
  }
  if (otherwise < 0 || !endWord("endfor"))
    return -1;
  return make(NodeKind::For, {make(NodeKind::Tuple, std::move(targets)), sequence, condition, body, otherwise});
}

int32_t TemplateParser::parseSet() {
  if (!advance())
    return -1;
  std::vector<int32_t> children;
  do {
    int32_t target = parseTarget();
    if (target < 0)
      return -1;
    children.push_back(target);
  } while (accept(","));
  if (accept("=")) {
    children.push_back(parseTuple());
    return children.back() >= 0 && endTag() ? make(NodeKind::Set, std::move(children)) : -1;
  }
  if (children.size() != 1)
    return fail("expected '='" + found());
  if (!endTag())
    return -1;
  children.push_back(parseBlock({"endset"}));
  return children.back() >= 0 && endWord("endset") ? make(NodeKind::SetBlock, std::move(children)) : -1;
}

int32_t TemplateParser::parseMacro() {
  if (!advance())
    return -1;
  std::string name = token.text;
  if (token.kind != Kind::Name)
    return fail("expected the macro's name" + found());
  if (!advance() || !expect("("))
    return -1;
  std::vector<int32_t> children;
  while (!isOperator(")")) {
    std::string parameter = token.text;
    if (token.kind != Kind::Name)
      return fail("expected a parameter's name" + found());
    if (!advance())
      return -1;
    std::vector<int32_t> standard;
    if (accept("="))
      standard.push_back(parseExpression());
    children.push_back(make(NodeKind::Parameter, std::move(standard), parameter));
    if (children.back() < 0)
      return -1;
    if (!accept(",") && !isOperator(")"))
      return fail("expected ',' or ')'" + found());
  }
  if (!expect(")") || !endTag())
    return -1;
  uint32_t outerLoops = loops;
  loops = 0;
  children.push_back(parseBlock({"endmacro"}));
  loops = outerLoops;
  return children.back() >= 0 && endWord("endmacro") ? make(NodeKind::Macro, std::move(children), name) : -1;
}

int32_t TemplateParser::parseFilterBlock() {
  int32_t value = make(NodeKind::Captured);
  do {
    if (!advance())
      return -1;
    value = parseFilter(value);
  } while (value >= 0 && isOperator("|"));
  if (value < 0 || !endTag())
    return -1;
  int32_t body = parseBlock({"endfilter"});
  return body >= 0 && endWord("endfilter") ? make(NodeKind::FilterBlock, {value, body}) : -1;
}

// Expressions.

int32_t TemplateParser::parseTuple() {
  int32_t first = parseExpression();
  if (!isOperator(",") || first < 0)
    return first;
  std::vector<int32_t> children = {first};
  while (accept(",")) {
    if (token.kind == Kind::PrintEnd || token.kind == Kind::BlockEnd || isOperator(")"))
      break;
    children.push_back(parseExpression());
    if (children.back() < 0)
      return -1;
  }
  return make(NodeKind::Tuple, std::move(children));
}

int32_t TemplateParser::parseExpression() {
  Nested nested(nesting);
  if (nesting > maxNesting)
    return fail("an expression nests deeper than the limit of " + std::to_string(maxNesting));
  int32_t value = parseOr();
  while (value >= 0 && acceptName("if")) {
    int32_t condition = parseOr();
    int32_t otherwise = condition >= 0 && acceptName("else") ? parseExpression() : make(NodeKind::Absent);
    value = make(NodeKind::Conditional, {value, condition, otherwise});
  }
  return error.empty() ? value : -1;
}

int32_t TemplateParser::parseOr() {
  int32_t left = parseAnd();
  while (left >= 0 && acceptName("or"))
    left = make(NodeKind::Or, {left, parseAnd()});
  return left;
}

int32_t TemplateParser::parseAnd() {
  int32_t left = parseNot();
  while (left >= 0 && acceptName("and"))
    left = make(NodeKind::And, {left, parseNot()});
  return left;
}

int32_t TemplateParser::parseNot() {
  Nested nested(nesting);
  if (nesting > maxNesting)
    return fail("an expression nests deeper than the limit of " + std::to_string(maxNesting));
  if (acceptName("not"))
    return make(NodeKind::Not, {parseNot()});
  return error.empty() ? parseCompare() : -1;
}

// a < b < c means (a < b) and (b < c).
int32_t TemplateParser::parseCompare() {
  int32_t left = parseBinary(0), result = -1;
  while (left >= 0) {
    std::string op;
    for (std::string_view known : {"==", "!=", "<=", ">=", "<", ">"})
      if (isOperator(known))
        op = known;
    if (op.empty() && isName("in"))
      op = "in";
    if (op.empty() && isName("not"))
      op = "not in";
    if (op.empty())
      break;
    if (!advance())
      return -1;
    if (op == "not in" && !acceptName("in"))
      return fail("expected 'in' after 'not'" + found());
    int32_t right = parseBinary(0);
    int32_t compare = make(NodeKind::Compare, {left, right}, op);
    result = result < 0 ? compare : make(NodeKind::And, {result, compare});
    if (result < 0)
      return -1;
    left = right;
  }
  return left < 0 || result < 0 ? left : result;
}

// Level 0: + -, 1: ~, 2: * / // %, then powers.
int32_t TemplateParser::parseBinary(int level) {
  static constexpr std::string_view levels[3][4] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}};
  if (level == 3)
    return parsePower();
  int32_t left = parseBinary(level + 1);
  while (left >= 0) {
    std::string op;
    for (std::string_view known : levels[level])
      if (!known.empty() && isOperator(known))
        op = known;
    if (op.empty())
      break;
    if (!advance())
      return -1;
    left = make(NodeKind::Binary, {left, parseBinary(level + 1)}, op);
  }
  return left;
}

int32_t TemplateParser::parsePower() {
  int32_t value = parseUnary(true);
  while (value >= 0 && accept("**"))
    value = make(NodeKind::Binary, {value, parseUnary(true)}, "**");
  return value;
}

// A sign binds tighter than a filter, as in Jinja: -3 | abs is 3.
int32_t TemplateParser::parseUnary(bool withFilters) {
  Nested nested(nesting);
  if (nesting > maxNesting)
    return fail("an expression nests deeper than the limit of " + std::to_string(maxNesting));
  int32_t value;
  if (accept("-"))
    value = make(NodeKind::Negate, {parseUnary(false)});
  else if (accept("+"))
    value = make(NodeKind::Plus, {parseUnary(false)});
  else
    value = error.empty() ? parsePostfix(parsePrimary()) : -1;
  while (withFilters && value >= 0) {
    if (accept("|"))
      value = parsePostfix(parseFilter(value));
    else if (acceptName("is"))
      value = parseTest(value);
    else
      break;
  }
  return error.empty() ? value : -1;
}

int32_t TemplateParser::parsePostfix(int32_t value) {
  while (value >= 0) {
    if (accept(".")) {
      std::string name = token.text;
      if (token.kind == Kind::Integer) {
        int32_t key = make(NodeKind::Integer);
        if (key >= 0)
          program.nodes[key].integer = strtoll(name.c_str(), nullptr, 10);
        value = advance() ? make(NodeKind::Index, {value, key}) : -1;
        continue;
      }
      if (token.kind != Kind::Name)
        return fail("expected an attribute's name" + found());
      if (name.substr(0, 2) == "__")
        return fail("attribute '" + name.substr(0, 40) + "' is not accessible");
      value = advance() ? make(NodeKind::Attribute, {value}, name) : -1;
    } else if (accept("[")) {
      value = parseSubscript(value);
    } else if (isOperator("(")) {
      std::vector<int32_t> children = {value};
      value = parseArguments(children) ? make(NodeKind::Call, std::move(children)) : -1;
    } else {
      break;
    }
  }
  return error.empty() ? value : -1;
}

int32_t TemplateParser::parseSubscript(int32_t object) {
  int32_t parts[3] = {-1, -1, -1};
  int count = 0;
  bool slice = false;
  while (!isOperator("]")) {
    if (accept(":")) {
      slice = true;
      if (++count > 2)
        return fail("a slice has at most three parts");
      continue;
    }
    if (parts[count] >= 0 || (parts[count] = parseExpression()) < 0)
      return fail("expected ']'" + found());
  }
  if (!expect("]"))
    return -1;
  if (!slice)
    return parts[0] < 0 ? fail("an empty subscript") : make(NodeKind::Index, {object, parts[0]});
  for (int32_t &part : parts)
    part = part < 0 ? make(NodeKind::Absent) : part;
  return make(NodeKind::Slice, {object, parts[0], parts[1], parts[2]});
}

// Appends the arguments in parentheses to `children`.
bool TemplateParser::parseArguments(std::vector<int32_t> &children) {
  if (!expect("("))
    return false;
  while (!isOperator(")")) {
    int32_t value = parseExpression();
    if (value >= 0 && isOperator("=") && program.nodes[value].kind == NodeKind::Name) {
      std::string name = program.nodes[value].text;
      value = advance() ? make(NodeKind::Argument, {parseExpression()}, name) : -1;
    }
    if (value < 0)
      return false;
    children.push_back(value);
    if (!accept(",") && !isOperator(")")) {
      fail("expected ',' or ')'" + found());
      return false;
    }
  }
  return expect(")");
}

int32_t TemplateParser::parseFilter(int32_t value) {
  std::string name = token.text;
  if (token.kind != Kind::Name)
    return fail("expected a filter's name" + found());
  if (!isTemplateFilter(name))
    return fail("unknown filter '" + name.substr(0, 40) + "'");
  if (!advance())
    return -1;
  std::vector<int32_t> children = {value};
  if (isOperator("(") && !parseArguments(children))
    return -1;
  return make(NodeKind::Filter, std::move(children), name);
}

int32_t TemplateParser::parseTest(int32_t value) {
  bool negated = acceptName("not");
  std::string name = token.text;
  if (token.kind != Kind::Name)
    return fail("expected a test's name" + found());
  if (!isTemplateTest(name))
    return fail("unknown test '" + name.substr(0, 40) + "'");
  if (!advance())
    return -1;
  std::vector<int32_t> children = {value};
  if (isOperator("(")) {
    if (!parseArguments(children))
      return -1;
  } else if (name == "divisibleby" || name == "in" || name == "eq" || name == "equalto" || name == "ne" ||
             name == "sameas") {
    children.push_back(parsePostfix(parsePrimary()));
  }
  int32_t test = make(NodeKind::Test, std::move(children), name);
  return negated ? make(NodeKind::Not, {test}) : test;
}

int32_t TemplateParser::parsePrimary() {
  TemplateToken here = token;
  if (here.kind == Kind::Operator)
    return parseBrackets();
  if (here.kind == Kind::PrintEnd || here.kind == Kind::BlockEnd || here.kind == Kind::End)
    return fail("expected an expression" + found());
  if (!advance())
    return -1;
  if (here.kind == Kind::String) {
    // Adjacent strings are one.
    for (; token.kind == Kind::String; here.text += token.text, advance())
      ;
    return make(NodeKind::String, {}, here.text);
  }
  if (here.kind == Kind::Integer || here.kind == Kind::Float) {
    int32_t node = make(here.kind == Kind::Integer ? NodeKind::Integer : NodeKind::Float);
    if (node < 0)
      return -1;
    if (here.kind == Kind::Integer && here.text.size() > 18)
      return fail("an integer that is too large");
    program.nodes[node].integer = strtoll(here.text.c_str(), nullptr, 10);
    program.nodes[node].number = strtod(here.text.c_str(), nullptr);
    return node;
  }
  if (here.text == "true" || here.text == "True")
    return make(NodeKind::True);
  if (here.text == "false" || here.text == "False")
    return make(NodeKind::False);
  if (here.text == "none" || here.text == "None")
    return make(NodeKind::None);
  return make(NodeKind::Name, {}, here.text);
}

int32_t TemplateParser::parseBrackets() {
  std::vector<int32_t> children;
  if (accept("(")) {
    if (accept(")"))
      return make(NodeKind::Tuple);
    int32_t value = error.empty() ? parseTuple() : -1;
    return value >= 0 && expect(")") ? value : -1;
  }
  bool isList = isOperator("[");
  if (!isList && !isOperator("{"))
    return fail("expected an expression" + found());
  const char *close = isList ? "]" : "}";
  if (!advance())
    return -1;
  while (!isOperator(close)) {
    children.push_back(parseExpression());
    if (children.back() < 0)
      return -1;
    if (!isList) {
      if (!expect(":"))
        return -1;
      children.push_back(parseExpression());
    }
    if (!accept(",") && !isOperator(close))
      return fail(std::string("expected ',' or '") + close + "'" + found());
  }
  return expect(close) ? make(isList ? NodeKind::List : NodeKind::Dict, std::move(children)) : -1;
}

bool parseTemplate(std::string_view source, TemplateProgram &program, std::string &error) {
  return TemplateParser(source, program, error).parse();
}

} // namespace heddle
