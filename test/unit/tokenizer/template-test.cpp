// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TestVocabulary.h"
#include "runtime/text/template/Template.h"

namespace heddle::test {

static const char *const conversation =
    R"({"messages": [{"role": "system", "content": "Be nice."}, {"role": "user", "content": " Hi "}], "add_generation_prompt": true})";

static RenderedChat renderChat(const std::string &source, const std::string &input = conversation) {
  std::string error;
  RenderedChat out;
  auto chat = ChatTemplate::parse(source, error);
  EXPECT_NE(chat, nullptr) << error;
  if (chat)
    EXPECT_TRUE(chat->render(input, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, out, error)) << error;
  return out;
}

static std::string render(const std::string &source, const std::string &input = conversation) {
  return renderChat(source, input).text;
}

TEST(Template, ChatMl) {
  EXPECT_EQ(render("{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + "
                   "'\n'}}{% endfor %}"
                   "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"),
            "<|im_start|>system\nBe nice.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n");
}

TEST(Template, LinesOfBlocksVanish) {
  EXPECT_EQ(render("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
  EXPECT_EQ(render("a\n  {%- if true -%}  \n b {%- endif %}\nc"), "abc");
  EXPECT_EQ(render("a\n  {%+ if true %}b{% endif +%}\nc"), "a\n  b\nc");
  EXPECT_EQ(render("x\n  {# note #}\ny {{- 1 -}} \n z"), "x\ny1z");
  EXPECT_EQ(render("{% raw %}{{ kept }}{% endraw %}"), "{{ kept }}");
}

TEST(Template, LoopsKnowWhereTheyAre) {
  EXPECT_EQ(render("{% for i in [5, 6, 7] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.length }}"
                   "{{ 'F' if loop.first }}{{ 'L' if loop.last }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}"),
            "1033F6 212357 3213L6 ");
  EXPECT_EQ(render("{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% else %}none{% endfor %}"), "a1b2");
  EXPECT_EQ(render("{% for x in [] %}x{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(render("{% for i in range(9) if i % 2 %}{% if i == 7 %}{% break %}{% endif %}{{ i }}{% endfor %}"), "135");
}

TEST(Template, NamespacesOutliveLoops) {
  EXPECT_EQ(render("{% set x = 0 %}{% set ns = namespace(n=0) %}{% for m in messages %}{% set x = 1 %}{% set ns.n = "
                   "ns.n + 1 %}{% endfor %}{{ x }}{{ ns.n }}"),
            "02");
}

// Keys are of any kind, as in Python: those of other kinds stay beside the attributes.
TEST(Template, NamespacesTakeMappings) {
  EXPECT_EQ(render("{% set ns = namespace({1: 2}) %}{% set ns.a = 3 %}{{ ns.a }}{{ ns[1] }}"), "32");
  EXPECT_EQ(render("{% set ns = namespace({'a': 1, none: 0}, a=2) %}{{ ns.a }}{% set ns.a = 3 %}{{ ns.a }}"), "23");
  // Or pairs, of which a later one wins.
  EXPECT_EQ(render("{% set ns = namespace([('a', 1), ['b', 2], ('a', 3)], c=4) %}{{ ns.a }}{{ ns.b }}{{ ns.c }}"),
            "324");
  EXPECT_EQ(render("{{ dict([('a', 1), 'bc']) }}"), "{'a': 1, 'b': 'c'}");
  EXPECT_EQ(render("{% set d = dict({'a': 1, 'b': 2}, a=3) %}{{ d }}{{ {1: 2, 1.0: 3} }}"), "{'a': 3, 'b': 2}{1: 3}");
  EXPECT_EQ(render("{{ {1: 'a', 'b': 2}.get(1) }}{{ 1 in {1: 2} }}{{ 'b' in {1: 2} }}{{ {1: 2}.b is defined }}"),
            "aTrueFalseFalse");
}

TEST(Template, MacrosTakeDefaultsAndNames) {
  EXPECT_EQ(render("{% macro f(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ f(1) }}{{ f(1, b=2) }}"), "[1x][12]");
}

TEST(Template, Filters) {
  EXPECT_EQ(
      render(
          "{{ ' x ' | trim }}{{ 'ab' | upper }}{{ [1, 2] | join('-') }}{{ nothing | default('d') }}{{ 'a' | length }}"),
      "xAB1-2d1");
  EXPECT_EQ(render("{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | first }}"),
            " Hi ");
  EXPECT_EQ(render("{{ {'a': [1, none, true, 'é\"']} | tojson }}"), "{\"a\": [1, null, true, \"\xC3\xA9\\\"\"]}");
  EXPECT_EQ(render("{{ {'a': [1]} | tojson(indent=2) }}"), "{\n  \"a\": [\n    1\n  ]\n}");
  EXPECT_EQ(render("{{ [3, 1, 2] | sort | reverse | list }}{{ '3' | int + 1 }}{{ -3 | abs }}"), "[3, 2, 1]43");
  EXPECT_EQ(render("{{ 'aXb' | replace('X', '-') }}{{ 'a\nb' | indent(2) }}"), "a-ba\n  b");
}

TEST(Template, OrdersAsJinja) {
  EXPECT_EQ(render("{{ ['b', 'A', 'a', 'B'] | sort }}{{ ['b', 'A', 'a'] | sort(case_sensitive=true) }}"),
            "['A', 'a', 'b', 'B']['A', 'a', 'b']");
  EXPECT_EQ(render("{{ [(1, 'x'), (0, 'y'), (1, 'a')] | sort }}{{ [3, 1.5, true, 2] | sort(reverse=true) }}"),
            "[(0, 'y'), (1, 'a'), (1, 'x')][3, 2, 1.5, True]");
  EXPECT_EQ(render("{{ range(40) | sort(reverse=true) | first }}{{ messages | sort(attribute='role') | "
                   "map(attribute='role') | join(',') }}"),
            "39system,user");
  EXPECT_EQ(render("{{ {'b': 1, 'A': 2} | dictsort }}{{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }}"
                   "{{ {'b': 1, 'A': 2, 'a': 3} | dictsort(true) }}"),
            "[('A', 2), ('b', 1)][('A', 2), ('b', 1)][('A', 2), ('a', 3), ('b', 1)]");
  EXPECT_EQ(render("{{ ['b', 'A', 'B', 'a'] | unique | list }}{{ ['B', 'a'] | max }}{{ ['B', 'a'] | min }}"
                   "{{ ['B', 'a'] | max(case_sensitive=true) }}"),
            "['b', 'A']Baa");
  EXPECT_EQ(render("{% set l = [{'n': 2}, {'n': 1}, {'n': 2}] %}{{ l | max(attribute='n') }}"
                   "{{ l | sum(attribute='n', start=10) }}{{ l | unique(attribute='n') | list | length }}"),
            "{'n': 2}152");
  EXPECT_EQ(render("{{ {'b': 1, 'a': {'d': 2, 'c': 3}} | tojson(sort_keys=true) }}{{ {2: 1, 1: 2} | "
                   "tojson(sort_keys=true) }}"),
            "{\"a\": {\"c\": 3, \"d\": 2}, \"b\": 1}{\"1\": 2, \"2\": 1}");
}

TEST(Template, KeysOfJsonAreStrings) {
  EXPECT_EQ(render("{{ {1: 2, none: 3, false: 4, 1.5: 5} | tojson }}"),
            "{\"1\": 2, \"null\": 3, \"false\": 4, \"1.5\": 5}");
  EXPECT_EQ(render("{% set e = '1e999' | float %}{{ [e, -e, e - e] | tojson }}"), "[Infinity, -Infinity, NaN]");
}

TEST(Template, SplitsFromBothEnds) {
  EXPECT_EQ(
      render("{{ 'aaa'.rsplit('aa', 1) }}{{ 'aaa'.split('aa', 1) }}{{ ' a b '.rsplit() }}{{ 'a-b'.rsplit('-') }}"),
      "['a', '']['', 'a']['a', 'b']['a', 'b']");
  EXPECT_EQ(render("{{ 'éab ab'.rfind('ab') }}{{ 'éab ab'.find('ab') }}{{ 'ab'.rfind('') }}{{ 'ab'.rfind('abc') }}"),
            "412-1");
}

TEST(Template, RaisesLettersAsPythonAndWordsAsJinja) {
  EXPECT_EQ(render("{{ \"it's im_start 3d\".title() }}"), "It'S Im_Start 3D");
  EXPECT_EQ(render("{{ \"it's im_start (a-b)\" | title }}"), "It's Im_start (A-B)");
  EXPECT_EQ(render("{{ 'éA b'.capitalize() }}{{ 'A1'.isupper() }}{{ 'Aé'.isupper() }}{{ 'é'.islower() }}"),
            "Éa bTrueFalseTrue");
  EXPECT_EQ(render("{{ '' | indent(2, first=true) }}{{ 'a\n\nb' | indent(2, true) }}"), "    a\n\n  b");
}

TEST(Template, TestsAndOperators) {
  EXPECT_EQ(render("{{ x is defined }}{{ none is none }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is iterable }}{{ 1 "
                   "is not string }}"),
            "FalseTrueTrueTrueTrueTrue");
  EXPECT_EQ(render("{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1 / 4 }} {{ 'a' ~ 1 }} {{ 'a' * 2 }}"),
            "3 -4 2 1024 0.25 a1 aa");
  EXPECT_EQ(render("{{ 1 < 2 < 3 }}{{ 'b' in 'abc' }}{{ 3 not in [1] }}{{ not true or true }}"), "TrueTrueTrueTrue");
}

TEST(Template, SlicesAndMethods) {
  EXPECT_EQ(render("{{ 'abc'[::-1] }}{{ 'abc'[1:] }}{{ [1, 2, 3][-1] }}{{ messages[1:] | length }}"), "cbabc31");
  EXPECT_EQ(render("{{ '<t>x</t>y'.split('</t>')[-1].strip() }}{{ 'ab'.startswith('a') }}{{ messages[0].get('none', "
                   "'d') }}{{ 'a-b-c'.rsplit('-', 1) }}"),
            "yTrued['a-b', 'c']");
}

TEST(Template, ContentIsKeptApart) {
  RenderedChat chat =
      renderChat("{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim | upper }}{% endfor %}");
  EXPECT_EQ(chat.text, "<s><|system|>BE NICE.<|user|>HI");
  ASSERT_EQ(chat.untrusted.size(), 2u);
  EXPECT_EQ(chat.text.substr(chat.untrusted[0].begin, chat.untrusted[0].end - chat.untrusted[0].begin), "BE NICE.");
  EXPECT_EQ(chat.text.substr(chat.untrusted[1].begin, chat.untrusted[1].end - chat.untrusted[1].begin), "HI");
}

TEST(Template, RolesAreTrustedOnlyAsPlainWords) {
  RenderedChat chat = renderChat("{{ messages[0].role }}", R"({"messages": [{"role": "<s>"}]})");
  EXPECT_EQ(chat.untrusted.size(), 1u);
  EXPECT_TRUE(renderChat("{{ messages[0].role }}", R"({"messages": [{"role": "user"}]})").untrusted.empty());
}

// Every way a template may pass content on, with a special token in it.
TEST(Template, NoOperationLaundersContent) {
  const char *input = R"({"messages": [{"role": "user", "content": "<s>"}]})";
  for (const char *expression : {"c",
                                 "c ~ ''",
                                 "'' + c",
                                 "c[:]",
                                 "c[::1]",
                                 "c | trim",
                                 "c | lower",
                                 "c.strip()",
                                 "c.split('x')[0]",
                                 "c | replace('x', 'y')",
                                 "c | string",
                                 "[c] | join",
                                 "c * 1",
                                 "(c | list) | join",
                                 "c.removeprefix('x')",
                                 "c | indent",
                                 "[c] | map('trim') | first",
                                 "'x' | replace('x', c)",
                                 "{'k': c}['k']",
                                 "c.lower()",
                                 "c if true else ''",
                                 "c | default('x')",
                                 "'-'.join([c, c])",
                                 "c | tojson",
                                 "c | reverse | reverse"}) {
    RenderedChat chat = renderChat("{% set c = messages[0].content %}{{ " + std::string(expression) + " }}", input);
    size_t at = chat.text.find("<s>");
    ASSERT_NE(at, std::string::npos) << expression << ": " << chat.text;
    EXPECT_TRUE(overlaps(chat.untrusted, at, at + 3)) << expression;
  }
}

} // namespace heddle::test
