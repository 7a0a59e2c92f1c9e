// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/text/tokenizer/Unicode.h"

#include <gtest/gtest.h>

namespace heddle::test {

static std::string normalized(std::string_view text, NormalForm form) {
  std::string out;
  appendNormalized(text, form, out);
  return out;
}

static std::string repeated(const std::string &text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i)
    out += text;
  return out;
}

static const std::string acute = "\u0301", dotBelow = "\u0323";

TEST(NormalForms, ComposeAndDecompose) {
  EXPECT_EQ(normalized("e" + acute, NormalForm::Nfc), "\u00E9");
  EXPECT_EQ(normalized("\u00E9", NormalForm::Nfd), "e" + acute);
  EXPECT_EQ(normalized("\uFB01\u00B2", NormalForm::Nfc), "\uFB01\u00B2");
  EXPECT_EQ(normalized("\uFB01\u00B2", NormalForm::Nfkc), "fi2");
  EXPECT_EQ(normalized("\uFB01\u00E9", NormalForm::Nfkd), "fie" + acute);
  EXPECT_EQ(normalized("\u1112\u1161\u11AB", NormalForm::Nfc), "\uD55C");
  EXPECT_EQ(normalized("\uD55C", NormalForm::Nfd), "\u1112\u1161\u11AB");
  EXPECT_EQ(normalized("\u0958", NormalForm::Nfc), "\u0915\u093C"); // excluded from composition
  EXPECT_EQ(normalized("", NormalForm::Nfc), "");
  EXPECT_EQ(normalized(std::string("\0a", 2), NormalForm::Nfc), std::string("\0a", 2));
}

TEST(NormalForms, MarksAreOrderedByClassAndOtherwiseKept) {
  EXPECT_EQ(normalized("a" + acute + dotBelow, NormalForm::Nfd), "a" + dotBelow + acute);
  EXPECT_EQ(normalized("a" + acute + dotBelow, NormalForm::Nfc), "\u1EA1" + acute);
  EXPECT_EQ(normalized("a\u0301\u0300b\u0300\u0301", NormalForm::Nfd), "a\u0301\u0300b\u0300\u0301");
  EXPECT_EQ(normalized(acute + dotBelow, NormalForm::Nfc), dotBelow + acute); // before any letter
}

// A text is normalised in parts where it is long; no part tears what belongs together.
TEST(NormalForms, LongTextsAreNormalizedAsShortOnes) {
  for (const char *text : {"e\u0301", "\u1112\u1161\u11AB", "a\u0301\u0323 ", "\u0915\u093C", "\u00A8\u0301"})
    for (NormalForm form : {NormalForm::Nfc, NormalForm::Nfd, NormalForm::Nfkc, NormalForm::Nfkd})
      EXPECT_EQ(normalized(repeated(text, 5000), form), repeated(normalized(text, form), 5000)) << text;
}

TEST(NormalForms, LongRunsOfMarksAreSortedAtOnce) {
  const int count = 100000;
  std::string text = "a" + repeated(acute, count) + repeated(dotBelow, count);
  EXPECT_TRUE(normalized(text, NormalForm::Nfd) == "a" + repeated(dotBelow, count) + repeated(acute, count));
  EXPECT_TRUE(normalized(text, NormalForm::Nfc) == "\u1EA1" + repeated(dotBelow, count - 1) + repeated(acute, count));
}

} // namespace heddle::test
