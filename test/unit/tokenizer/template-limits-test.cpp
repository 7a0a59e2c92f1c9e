// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TestVocabulary.h"
#include "runtime/text/template/Template.h"

#include <ctime>

namespace heddle::test {

static std::string parseError(const std::string &source) {
  std::string error;
  EXPECT_EQ(ChatTemplate::parse(source, error), nullptr) << source.substr(0, 80);
  return error;
}

static const char *const oneMessage = R"({"messages": [{"role": "user", "content": "Hi"}]})";

static std::string renderError(const std::string &source) {
  std::string error;
  auto chat = ChatTemplate::parse(source, error);
  EXPECT_NE(chat, nullptr) << error;
  RenderedChat out;
  EXPECT_FALSE(chat && chat->render(oneMessage, {}, out, error)) << source.substr(0, 80);
  return error;
}

// What a template renders to, or its error: within seconds, also in a build with sanitizers.
static std::string renderQuickly(const std::string &source, const std::string &input = oneMessage) {
  std::string error;
  auto chat = ChatTemplate::parse(source, error);
  EXPECT_NE(chat, nullptr) << error;
  RenderedChat out;
  clock_t begin = clock();
  if (chat && !chat->render(input, {}, out, error))
    out.text = error;
  EXPECT_LT((clock() - begin) / CLOCKS_PER_SEC, 10) << source.substr(0, 80);
  return out.text;
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

TEST(TemplateErrors, NameTheLine) {
  expectPart(renderError("{{ 1 +\n 'a'\n}}"), "line 1: '+' between");
  expectPart(renderError("\n{% for x in\n 5 %}\n{% endfor %}"), "line 2: an integer cannot be iterated");
  expectPart(renderError("{{ x\n}}\n{{ x.y.z\n}}"), "line 3: 'y' of something undefined");
  expectPart(renderError("{% macro f() %}\n\n{% endmacro %}\n{{ f()\n - 1 }}"), "line 4: '-' between");
  expectPart(renderError("{% macro f() %}\n{{ 1 // 0 }}{% endmacro %}\n\n{{ f() }}"), "line 2: division by zero");
  expectPart(renderError("{% set x = 'a' %}\n{% set x.y = 1 %}\n"), "line 2: cannot assign an attribute of a string");
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
  EXPECT_EQ(renderQuickly(comments + "a"), "a");
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
  const std::string cycle = "{% set ns = namespace() %}{% set ns.a = ns %}{% set ns.b = ns %}";
  expectPart(renderError(cycle + "{{ ns }}"), "deeper than the limit of 64");
  expectPart(renderError(cycle + "{{ ns | tojson }}"), "deeper than the limit of 64");
}

// Searching takes time linear in the text, also for a pattern that nearly occurs everywhere.
TEST(TemplateLimits, SearchesAreLinear) {
  const std::string strings = "{% set s = ('a' * 2000) * 1000 %}{% set p = ('a' * 1000) * 1000 %}";
  const std::pair<const char *, const char *> cases[] = {{"s.find(p ~ 'b')", "-1"},
                                                         {"s.rfind('b' ~ p)", "-1"},
                                                         {"s.rfind('a' ~ p)", "999999"},
                                                         {"p ~ 'b' in s", "False"},
                                                         {"s.count(p ~ 'b')", "0"},
                                                         {"s.split(p ~ 'b') | length", "1"},
                                                         {"s.rsplit('b' ~ p) | length", "1"},
                                                         {"s | replace(p ~ 'b', '') | length", "2000000"},
                                                         {"s.strip(('b' * 1000) * 500 ~ 'a')", "fuel limit"}};
  for (auto [expression, result] : cases)
    EXPECT_NE(renderQuickly(strings + "{{ " + expression + " }}").find(result), std::string::npos) << expression;
}

// A text of many stretches that users wrote is cut into characters in one pass.
TEST(TemplateLimits, StretchesOfUsersAreFound) {
  EXPECT_EQ(renderQuickly("{% set s = ('x' ~ messages[0].content) * 200000 %}{{ s[::-1][:4] }}"), "iHxi");
}

TEST(TemplateLimits, VariablesCostFuel) {
  std::string input = "{", sets;
  for (int i = 0; i < 200000; ++i)
    input += (i ? ",\"a" : "\"a") + std::to_string(i) + "\":" + std::to_string(i);
  for (int i = 0; i < 20000; ++i)
    sets += "{%set a" + std::to_string(i) + "=1%}";
  EXPECT_EQ(renderQuickly("{{ a0 }} {{ a199999 }}", input + "}"), "0 199999");
  EXPECT_EQ(renderQuickly("{{ a }}", R"({"a": 1, "b": 2, "a": 3})"), "3");
  expectPart(renderQuickly("{% for i in range(10000) %}{{ nothing }}{% endfor %}", input + "}"), "fuel limit");
  expectPart(renderQuickly(sets), "fuel limit");
}

// Operations whose operands are large, or the same large string many times, run out of fuel or memory and not of patience.
TEST(TemplateLimits, OperandsCostFuel) {
  const std::string strings = "{% set s = ('a' * 1000) * 1000 %}{% set t = s[1:] ~ 'b' %}{% set n = range(100000) %}"
                              "{% set many = [s] * 200000 %}{% set d = {s: 1} %}";
  for (const char *expression : {"many | sort(case_sensitive=true)",
                                 "many | max(case_sensitive=true)",
                                 "many | unique(case_sensitive=true) | list",
                                 "many | join",
                                 "many | tojson",
                                 "many ~ ''",
                                 "many == many",
                                 "many | select('in', s) | list",
                                 "many | select('eq', t) | list",
                                 "many | select('lt', t) | list",
                                 "many | selectattr(s) | list",
                                 "many | map('trim') | list",
                                 "many | map('length') | sum",
                                 "many | map('wordcount') | sum",
                                 "many | map('int') | sum",
                                 "([d] * 100000) | map(attribute=s) | list",
                                 "n | map('replace', s, s) | list",
                                 "n | map('indent', s) | list",
                                 "n | join(s)",
                                 "n | tojson(separators=(s, ':'))",
                                 "t in many",
                                 "many.index(t)",
                                 "many.count(s)",
                                 "''.join(many)",
                                 "s.startswith(many)"})
    expectPart(renderQuickly(strings + "{{ (" + expression + ") is defined }}"), "limit");
}

TEST(TemplateLimits, ParametersOfMacrosCostFuel) {
  std::string parameters, arguments;
  for (int i = 0; i < 5000; ++i) {
    parameters += (i ? ",a" : "a") + std::to_string(i);
    arguments += (i ? ",a" : "a") + std::to_string(i) + "=1";
  }
  expectPart(renderQuickly("{% macro f(" + parameters + ") %}{% endmacro %}{% for i in range(1000) %}{{ f(" +
                           arguments + ") }}{% endfor %}"),
             "fuel limit");
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
  expectPart(renderError("{{ namespace([1]) }}"), "cannot be iterated");
  expectPart(renderError("{{ namespace([('a', 1, 2)]) }}"), "namespace takes pairs, not 3 values");
  expectPart(renderError("{{ namespace('abc') }}"), "namespace takes pairs, not 1 values");
  expectPart(renderError("{{ namespace(3) }}"), "namespace takes a mapping or pairs, not ");
  expectPart(renderError("{{ dict(absent) }}"), "dict takes a mapping or pairs, not ");
  expectPart(renderError("{{ namespace({}, {}) }}"), "namespace takes one mapping, not 2");
  expectPart(renderError("{{ dict({}, {}, a=1) }}"), "dict takes one mapping, not 2");
  expectPart(renderError("{{ {(1, 2): 3} | tojson }}"), "a key that is a list, not a string");
  expectPart(renderError("{{ x | tojson }}"), "tojson of undefined, which has no JSON form");
  expectPart(renderError("{{ {'a': 1} | dictsort(by='size') }}"), "dictsort takes by='key' or by='value'");
  expectPart(renderError("{{ raise_exception('roles\nmust alternate') }}"),
             "the template refuses: roles must alternate");
}

// Values of several kinds, and NaN, have no order: every operation that needs one says so, however many they are.
TEST(TemplateErrors, WhatHasNoOrder) {
  const std::string dict = "{% set d = {'x': 1, 2: 'x', none: 1, 'y': 'y', 3.5: 2, true: 0} %}"
                           "{% set l = (d | list) * 10 %}{% set e = '1e999' | float %}{% set nan = e - e %}";
  for (const char *expression : {"l | sort", "l | min", "l | max", "d | dictsort", "d | dictsort(by='value')",
                                 "d | tojson(sort_keys=true)", "[[1, 'a'], [1, 2]] | sort", "[x, y] | sort"})
    expectPart(renderError(dict + "{{ " + expression + " }}"), "cannot compare ");
  for (const char *expression :
       {"([1, 2, nan] * 10) | sort", "[1, nan] | min", "[nan, 1] | max", "{1: 2, nan: 3} | tojson(sort_keys=true)",
        "{'a': nan, 'b': 1} | dictsort(by='value')"})
    expectPart(renderError(dict + "{{ " + expression + " }}"), "NaN cannot be ordered");
}

} // namespace heddle::test
