// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Json.h"

#include <cmath>
#include <gtest/gtest.h>

namespace heddle::test {

static bool accepts(const std::string &text) {
  std::string error;
  bool good = static_cast<bool>(JsonValue::parse(text, error));
  EXPECT_EQ(good, error.empty());
  return good;
}

TEST(Json, AcceptsTheGrammarAndNothingElse) {
  for (const char *good :
       {"{}", "[]", " [1, -2.5e+3, true, null, \"x\"] ", "{\"a\": {\"b\": []}}", "\"\\ud83d\\ude00\"", "0"})
    EXPECT_TRUE(accepts(good)) << good;
  for (const char *bad : {"", "{", "[1,]", "{\"a\"}", "{\"a\":1,}", "01", "1.", "-", "\"\\x\"", "\"\\ud800\"", "\"\n\"",
                          "[1] 2", "tru", "{1:2}", "\"\xFF\""})
    EXPECT_FALSE(accepts(bad)) << bad;
}

TEST(Json, BoundsNesting) {
  EXPECT_TRUE(accepts(std::string(64, '[') + std::string(64, ']')));
  EXPECT_FALSE(accepts(std::string(65, '[') + std::string(65, ']')));
  EXPECT_FALSE(accepts(std::string(1000000, '[')));
}

TEST(Json, WalksValues) {
  std::string error;
  JsonValue root =
      JsonValue::parse(R"({"a": [1, {"b": "x\né\u00e9"}], "n": 9007199254740993, "a2": 1, "a2": 2})", error);
  ASSERT_TRUE(root) << error;
  int64_t number = 0;
  EXPECT_TRUE(root.find("n").integer(number));
  EXPECT_EQ(number, 9007199254740993);
  JsonItems items(root.find("a"));
  ASSERT_TRUE(items.next() && items.next());
  EXPECT_EQ(items.value.find("b").string(), "x\n\xC3\xA9\xC3\xA9");
  EXPECT_FALSE(items.next());
  bool duplicate = false;
  root.find("a2", &duplicate);
  EXPECT_TRUE(duplicate);
}

TEST(Json, IntegersAreExactOrRefused) {
  std::string error;
  int64_t number = 0;
  for (const char *text : {"1.0", "1e2", "9223372036854775808", "\"1\"", "-9223372036854775809"})
    EXPECT_FALSE(JsonValue::parse(text, error).integer(number)) << text;
  EXPECT_TRUE(JsonValue::parse("-9223372036854775808", error).integer(number));
  EXPECT_EQ(number, INT64_MIN);
}

TEST(Json, NaturalNumbersAreExactOrRefused) {
  std::string error;
  uint64_t number = 0;
  for (const char *text : {"1.0", "1e2", "-1", "-0", "18446744073709551616", "\"1\"", "[]", "null"})
    EXPECT_FALSE(JsonValue::parse(text, error).natural(number)) << text;
  EXPECT_TRUE(JsonValue::parse("18446744073709551615", error).natural(number));
  EXPECT_EQ(number, UINT64_MAX);
}

TEST(Json, FaultsNameTheByte) {
  auto errorOf = [](const std::string &text) {
    std::string error;
    EXPECT_FALSE(JsonValue::parse(text, error));
    return error;
  };
  EXPECT_EQ(errorOf("[1 2]"), "not valid JSON: byte 3: expected ',' or ']', found '2'");
  EXPECT_EQ(errorOf("{\"a\": tru}"), "not valid JSON: byte 6: not a JSON value: 'tru}'");
  EXPECT_EQ(errorOf("{\"a\" 1}"), "not valid JSON: byte 5: expected ':', found '1'");
  EXPECT_EQ(errorOf("{\"a\": \"\\q\"}"), "not valid JSON: byte 7: unknown escape 'q'");
  EXPECT_EQ(errorOf("[\"\x1b\"]"), "not valid JSON: byte 2: a control byte in a string");
  EXPECT_EQ(errorOf("[1,"), "not valid JSON: byte 3: expected a value, found the end of the JSON text (truncated?)");
}

TEST(Json, AmbiguousTextIsFound) {
  auto errorOf = [](const std::string &text) {
    std::string error;
    EXPECT_EQ(isUnambiguousJson(JsonValue::parse(text, error), error), error.empty()) << text;
    return error;
  };
  EXPECT_EQ(errorOf(R"({"a": {"b": 1, "c": [1e308]}, "b": {"b": -0.0}})"), "");
  EXPECT_EQ(errorOf(R"({"a": [{"b": 1, "x": 2, "\u0062": 3}]})"), "duplicate key 'b'");
  EXPECT_EQ(errorOf(R"({"a": [1, -1e400]})"), "a number is out of range: '-1e400'");
}

TEST(Json, WritesNumbersThatReadBack) {
  for (auto [number, text] : {std::pair<double, const char *>{0.1, "0.1"},
                              {1e-5, "1e-05"},
                              {500000, "500000.0"},
                              {1e300, "1e+300"},
                              {1.0 / 3, "0.3333333333333333"},
                              {-0.5, "-0.5"},
                              {HUGE_VAL, "null"}})
    EXPECT_EQ(jsonNumber(number), text);
}

TEST(Json, WritesStringsInAscii) {
  EXPECT_EQ(jsonString("\xC3\xA9\xF0\x9F\x98\x80\xFF!", true), "\"\\u00e9\\ud83d\\ude00\\ufffd!\"");
}

TEST(Json, WritesStrings) {
  std::string out;
  appendJsonString("a\"\\\n\x01\xC3\xA9", out);
  EXPECT_EQ(out, "\"a\\\"\\\\\\n\\u0001\xC3\xA9\"");
}

} // namespace heddle::test
