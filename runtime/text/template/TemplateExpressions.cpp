// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/template/TemplateParser.h"

#include <cstdlib>

namespace heddle {

using Kind = TemplateTokenKind;

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

} // namespace heddle
