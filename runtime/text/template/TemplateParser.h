// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tokens of a chat template -> TemplateProgram.
#ifndef HEDDLE_RUNTIME_TEXT_TEMPLATE_TEMPLATEPARSER_H
#define HEDDLE_RUNTIME_TEXT_TEMPLATE_TEMPLATEPARSER_H

#include "runtime/text/template/TemplateLexer.h"
#include "runtime/text/template/TemplateProgram.h"

#include <initializer_list>

namespace heddle {

// Recursive descent over tokens. A parse function returns the index of its node, or -1 once `error` is set; from then on no token is
// read and no node made. Nesting is counted before every recursion, and the depth of every tree that evaluation will walk is bounded.
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

  // The token becomes the end of the template: a loop that goes on while it finds a token ends here.
  int32_t fail(const std::string &what) {
    if (error.empty())
      error = templateError(token.line, what);
    token = TemplateToken();
    return -1;
  }
  bool advance() {
    std::string what;
    lastLine = token.line;
    if (error.empty() && lexer.next(token, what))
      return true;
    fail(what);
    return false;
  }
  bool isOperator(std::string_view text) const {
    return token.kind == TemplateTokenKind::Operator && token.text == text;
  }
  bool isName(std::string_view text) const { return token.kind == TemplateTokenKind::Name && token.text == text; }
  bool accept(std::string_view text) { return isOperator(text) && advance(); }
  bool acceptName(std::string_view text) { return isName(text) && advance(); }
  bool expect(std::string_view text) {
    if (isOperator(text))
      return advance();
    fail("expected '" + std::string(text) + "'" + found());
    return false;
  }
  std::string found() const {
    if (token.kind == TemplateTokenKind::End || token.kind == TemplateTokenKind::BlockEnd ||
        token.kind == TemplateTokenKind::PrintEnd)
      return ", found the end of the tag";
    return ", found '" + printable(token.text, 40) + "'";
  }

  // A node stands where its first child does; one without children in the line of the token before the current one.
  int32_t make(NodeKind kind, std::vector<int32_t> children = {}, std::string text = {}) {
    if (!error.empty())
      return -1;
    uint32_t depth = 0, line = children.empty() ? lastLine : program.nodes[children[0]].line;
    for (int32_t child : children)
      depth = program.nodes[child].depth > depth ? program.nodes[child].depth : depth;
    if (depth >= maxTreeDepth)
      return fail("nesting exceeds the limit of " + std::to_string(maxTreeDepth));
    if (program.nodes.size() >= maxNodes)
      return fail("the template is too large: more than " + std::to_string(maxNodes) + " parts");
    program.nodes.push_back({kind, line, depth + 1, std::move(text), std::move(children)});
    return static_cast<int32_t>(program.nodes.size() - 1);
  }

  // Statements (TemplateParser.cpp).
  int32_t parseBlock(Words ends);
  int32_t parseStatement();
  int32_t parseIf();
  int32_t parseFor();
  int32_t parseSet();
  int32_t parseMacro();
  int32_t parseFilterBlock();
  int32_t parseTarget();
  bool endTag() {
    if (token.kind == TemplateTokenKind::BlockEnd)
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

  // Expressions (TemplateExpressions.cpp), from the loosest to the tightest.
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
  uint32_t lastLine = 1; // of the token before `token`
  uint32_t nesting = 0;
  uint32_t loops = 0;
};

} // namespace heddle

#endif
