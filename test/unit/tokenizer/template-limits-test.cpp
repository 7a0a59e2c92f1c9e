// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TestVocabulary.h"
#include "runtime/text/template/Template.h"

namespace heddle::test {

static std::string parseError(const std::string &source) {
  std::string error;
  EXPECT_EQ(ChatTemplate::parse(source, error), nullptr) << source.substr(0, 80);
  return error;
}

static std::string renderError(const std::string &source) {
  std::string error;
  auto chat = ChatTemplate::parse(source, error);
  EXPECT_NE(chat, nullptr) << error;
  RenderedChat out;
  EXPECT_FALSE(chat && chat->render(R"({"messages": [{"role": "user", "content": "Hi"}]})", {}, out, error))
      << source.substr(0, 80);
  return error;
}

static void expectPart(const std::string &message, const char *part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(message.rfind("chat_template", 0), 0u) << message;
}

TEST(TemplateErrors, AreFoundWhenParsed) {
  expectPart(parseError("a\n{% for x in y %}"),
             "line 2: unexpected end: the block of line 2 is unclosed, expected endfor");
  expectPart(parseError("{% if x %}"), "expected endif");
  expectPart(parseError("{{ x"), "unexpected end");
  expectPart(parseError("{{ x | frobnicate }}"), "unknown filter 'frobnicate'");
  expectPart(parseError("{{ x is frobnicated }}"), "unknown test 'frobnicated'");
  expectPart(parseError("{% include 'x' %}"), "statement 'include' is not supported");
  expectPart(parseError("{{ ''.__class__ }}"), "attribute '__class__' is not accessible");
  expectPart(parseError("{{ 'x }}"), "string without its closing quote");
  expectPart(parseError("{# x"), "comment without its closing");
  expectPart(parseError("{% break %}"), "break outside of a loop");
  expectPart(parseError("{{ a b }}"), "expected '}}', found 'b'");
  expectPart(parseError("{{ ? }}"), "unexpected character");
  expectPart(parseError("{{ 'a' 'b'"), "unexpected end");
  expectPart(parseError("{{ a 'é' }}"), "found '\\xc3\\xa9'");
}

// Wherever a template is cut off, reading it ends, and what is wrong is said in one line.
TEST(TemplateErrors, EveryLoopEndsWithTheTemplate) {
  const std::string source =
      "{% set x, ns.y = (1, [2, 3][0:1:2], {'a': 'b' 'c', 4: -5 ** 6 // 7}), f(8, a=9) %}"
      "{% for a, b in c if (d if g else e) and not h is not none %}{{ a.b.0[1] | d('x') | join }}"
      "{% else %}{% endfor %}{% macro f(a, b=1 + 2) %}{# c #}{% endmacro %}"
      "{% filter upper | trim %}{% raw %}{{ x }}{% endraw %}{% endfilter %}"
      "{% if a == 1 and b ~ c not in d %}{% elif e %}{% else %}{% endif %}"
      "{% generation %}{% set z %}{% endset %}{% endgeneration %}";
  for (size_t size = 0; size <= source.size(); ++size) {
    std::string error;
    if (!ChatTemplate::parse(source.substr(0, size), error))
      expectPart(error, "chat_template line 1: ");
    else
      EXPECT_EQ(error, "");
  }
  std::string error;
  EXPECT_NE(ChatTemplate::parse(source, error), nullptr) << error;
}

TEST(TemplateErrors, BoundSizeAndNesting) {
  expectPart(parseError("{{ " + std::string(50000, '(') + "1" + std::string(50000, ')') + " }}"),
             "deeper than the limit of 64");
  expectPart(parseError("{{ " + std::string(50000, '-') + "1 }}"), "deeper than the limit of 64");
  std::string ifs, sum = "{{ 1";
  for (int i = 0; i < 1000; ++i)
    ifs += "{% if x %}", sum += " + 1";
  expectPart(parseError(ifs), "deeper than the limit of 64");
  expectPart(parseError(sum + " }}"), "exceeds the limit of 256");
  expectPart(parseError(std::string(1 << 20, 'x')), "the limit is 524288");
  expectPart(parseError(std::string("a\0b", 3)), "NUL");
  expectPart(parseError("\xFF"), "not valid UTF-8");
}

TEST(TemplateErrors, CommentsDoNotNest) {
  std::string comments;
  for (int i = 0; i < 131000; ++i)
    comments += "{##}";
  std::string error;
  EXPECT_NE(ChatTemplate::parse(comments + "a", error), nullptr) << error;
}

TEST(TemplateErrors, FuelAndMemoryRunOut) {
  expectPart(renderError("{% for i in range(1000000000) %}{% endfor %}"), "exceeds the limit of 1000000 elements");
  expectPart(renderError("{% for i in range(0, 0 - 2**62 - 2**62, -1) %}{% endfor %}"), "exceeds the limit of 1000000");
  expectPart(renderError("{% for i in range(25000) %}{% for j in range(25000) %}{% endfor %}{% endfor %}"),
             "fuel limit");
  expectPart(renderError("{{ 'x' * 1000000000000 }}"), "limit of memory");
  expectPart(
      renderError("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
      "limit of memory");
  expectPart(renderError("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), "deeper than the limit of 1000");
}

TEST(TemplateErrors, OperationsThatCannotBe) {
  expectPart(renderError("{{ 1 // 0 }}"), "division by zero");
  expectPart(renderError("{{ 1 % 0 }}"), "division by zero");
  expectPart(renderError("{{ 9223372036854775 * 9223372036854775 }}"), "integer is too large");
  expectPart(renderError("{{ 'a' + 1 }}"), "'+' between a string and an integer");
  expectPart(renderError("{{ nothing.member }}"), "'member' of something undefined");
  expectPart(renderError("{{ messages.append(1) }}"), "would change a list");
  expectPart(renderError("{{ messages() }}"), "cannot be called");
  expectPart(renderError("{% for x in 5 %}{% endfor %}"), "cannot be iterated");
  expectPart(renderError("{{ raise_exception('roles\nmust alternate') }}"),
             "the template refuses: roles must alternate");
}

} // namespace heddle::test
