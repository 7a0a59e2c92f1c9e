// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/template/TemplateParser.h"

namespace heddle {

using Kind = TemplateTokenKind;

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
  std::string name = token.text;
  if (!advance())
    return -1;
  int32_t target = make(NodeKind::Name, {}, name);
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

bool parseTemplate(std::string_view source, TemplateProgram &program, std::string &error) {
  error.clear();
  return TemplateParser(source, program, error).parse();
}

} // namespace heddle
