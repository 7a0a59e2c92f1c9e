// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs of patterns find what the engine finds, whose answer is the expected one everywhere here.
#include "bytes/Utf8.h"
#include "frontends/tokenizer/CutProgramWriter.h"
#include "runtime/text/tokenizer/CutProgram.h"
#include "runtime/text/tokenizer/TextParts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

using namespace heddle;

namespace {

// Of pre-tokenizers that models have.
// NOLINTBEGIN(bugprone-suspicious-missing-comma)
const char *const knownPatterns[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|"
    "\\s+",
    "(?:'[sS]|'[tT]|'[rR][eE])|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++(?!\\S)|\\s+",
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|"
    "'d)?|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|"
    "\\s+(?!\\S)|\\s+",
    "[一-龥\xE3\x80\x80-ゟ゠-ヿ]+",
    "\\p{N}",
    "\\w+|[^\\w\\s]+",
    "\\s+",
    " ",
    "\\d{3}(?=\\d)",
    "[\\r\\n]",
    ".",
    "(?:ab|a)(?:bc|c)*d?",
    "a{2}|b{2,}|c{0,2}x|(?:ab){1,3}",
    "(?i:ſ|k|straße)",
    "\\x41|\\x{e9}|\\t|\\.|\\]",
    "[]a]+|[^]a]",
    "\\P{L}\\pL",
    "[\\x{50000}-\\x{50010}]+",
    "[\U00050001\U0010fffd]",
    "\\p{Co}+|\\p{Cn}"};
// NOLINTEND(bugprone-suspicious-missing-comma)

// What a matcher finds from left to right, as begin:end, and how it ends.
std::string matchesOf(const Regex &regex, const std::string &text) {
  std::unique_ptr<Regex::Matcher> matcher = regex.matcher();
  std::string found, error;
  size_t begin = 0, end = 0;
  for (size_t from = 0; from <= text.size() && matcher->find(text, from, begin, end, error);) {
    found += std::to_string(begin) + ":" + std::to_string(end) + " ";
    from = end;
    if (begin == end && from < text.size())
      nextCharacter(text, from);
    else if (begin == end)
      break;
  }
  return found + error;
}

void expectSameMatches(const std::string &pattern, const std::vector<uint32_t> &words, const std::string &text) {
  std::string error;
  std::unique_ptr<Regex> program = CutProgram::create(words.data(), words.size(), error),
                         engine = heddle_part_regex.compile(pattern, error);
  ASSERT_TRUE(program && engine) << pattern << ": " << error;
  EXPECT_EQ(matchesOf(*program, text), matchesOf(*engine, text)) << pattern << "\n" << text;
}

// The same numbers in every run.
std::mt19937 generatorOf(unsigned seed) {
  return std::mt19937(seed);
}

std::string randomText(std::mt19937 &random, size_t length) {
  static const char *const pieces[] = {
      "a",    "b",      "c",  "A",          "s",      "'",          "ll",         "RE",        " ", "  ", "\n",
      "\r\n", "\t",     "1",  "234",        "५",      "é",          "ß",          "ſ",         "K", "ǅ",  "\u0301",
      "中",   "\u3000", "ゟ", "🙂",         ".",      "-",          "_",          "/",         "]", "[",  "x",
      "d",    "\u200b", "ß",  "\U0010fffd", "\u00a0", "\U00050001", "\U00100000", "\U000e0100"};
  std::string text;
  for (size_t i = 0; i < length; ++i)
    text += pieces[random() % std::size(pieces)];
  return text;
}

TEST(CutProgram, findsWhatTheEngineFinds) {
  std::mt19937 random = generatorOf(1);
  for (const char *pattern : knownPatterns) {
    std::vector<uint32_t> words = writeCutProgram(pattern);
    ASSERT_FALSE(words.empty()) << pattern;
    for (int i = 0; i < 40; ++i)
      expectSameMatches(pattern, words, randomText(random, size_t(i)));
  }
}

// A class is asked of the engine once, stretch by stretch: none of all characters is missed.
TEST(CutProgram, classesAreTheEnginesForEveryCharacter) {
  std::string all;
  for (char32_t character = 0; character <= 0x10ffff; ++character)
    if (character < 0xd800 || character > 0xdfff)
      appendUtf8(character, all);
  for (const char *atom : {"[^^a]", "[\\^]", "[]]", "[^]]", ".", "\\w", "\\W", "\\D", "\\S", "\\H", "\\V", "[^\\W_]",
                           "[^\\w]", "\\P{Lu}", "(?i:[k-s])", "(?i:ß)", "x"}) {
    std::string pattern = std::string(atom) + "+";
    if (atom[0] == '(')
      pattern = "(?i:" + std::string(atom).substr(4, strlen(atom) - 5) + "+)";
    std::vector<uint32_t> words = writeCutProgram(pattern);
    ASSERT_FALSE(words.empty()) << pattern;
    std::string error;
    std::unique_ptr<Regex> program = CutProgram::create(words.data(), words.size(), error),
                           engine = heddle_part_regex.compile(pattern, error);
    EXPECT_TRUE(matchesOf(*program, all) == matchesOf(*engine, all)) << pattern;
  }
}

// Each space could begin a match, and give back all that follow it; and each letter could be the first of a long text.
TEST(CutProgram, takesRunsThatMatchNothing) {
  const std::pair<const char *, std::string> cases[] = {{"\\s+x", std::string(20000, ' ') + "y"},
                                                        {"(?:foo|bar)", std::string(1 << 20, 'b')}};
  for (const auto &[pattern, text] : cases) {
    std::vector<uint32_t> words = writeCutProgram(pattern);
    ASSERT_FALSE(words.empty()) << pattern;
    std::string error;
    std::unique_ptr<Regex> program = CutProgram::create(words.data(), words.size(), error);
    ASSERT_TRUE(program) << error;
    EXPECT_EQ(matchesOf(*program, text), "") << pattern;
  }
}

// A pattern of what programs have, of which most are no tokenizer's.
std::string randomPattern(std::mt19937 &random, int depth) {
  static const char *const atoms[] = {"a",      "b",   "s", "[ab]", "[^a\\s]", "\\s",
                                      "\\p{L}", "\\d", ".", "'",    "(?i:s)",  "\\W"};
  static const char *const counts[] = {"", "", "", "?", "*", "+", "{2}", "{1,2}", "++", "?+"};
  std::string pattern;
  for (int i = 0, pieces = 1 + int(random() % 3); i < pieces; ++i) {
    bool isGroup = depth && random() % 3 == 0;
    static const char *const groups[] = {"(?:", "(", "(?i:", "(?=", "(?!"};
    size_t group = random() % std::size(groups);
    pattern += isGroup ? groups[group] + randomPattern(random, depth - 1) + ")" : atoms[random() % std::size(atoms)];
    if (!isGroup || group < 3)
      pattern += counts[random() % (isGroup ? 8 : std::size(counts))];
    if (random() % 4 == 0)
      pattern += "|" + std::string(atoms[random() % std::size(atoms)]);
  }
  return pattern;
}

TEST(CutProgram, findsWhatTheEngineFindsForAnyPattern) {
  std::mt19937 random = generatorOf(2);
  int written = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string pattern = randomPattern(random, 2);
    std::vector<uint32_t> words = writeCutProgram(pattern);
    written += !words.empty();
    for (int text = 0; text < 3 && !words.empty(); ++text)
      expectSameMatches(pattern, words, randomText(random, 12));
  }
  EXPECT_GT(written, 1000); // the others repeat what may be empty
}

TEST(CutProgram, isNotWrittenForMoreThanItHas) {
  for (const char *pattern :
       {"^a",  "a$",     "a+?",   "\\bword",  "(?<=a)b",     "(?<n>a)", "(?i)a",  "(?>a)", "\\R",
        "\\X", "(a)\\1", "(a?)*", "(?:a+)++", "[[:alpha:]]", "\\Qa\\E", "a{,2}",  "a{2",   "(a",
        "a)",  "*a",     "[a",    "\\",       "\\p",         "\\p1",    "(?#c)a", "a**",   "(?=(?!a)b"})
    EXPECT_TRUE(writeCutProgram(pattern).empty()) << pattern;
}

TEST(CutProgram, givesUpWhereTheEngineDoes) {
  std::vector<uint32_t> words = writeCutProgram("(?:a+)+b");
  std::string error, text(40, 'a');
  std::unique_ptr<Regex> program = CutProgram::create(words.data(), words.size(), error);
  ASSERT_TRUE(program) << error;
  EXPECT_EQ(matchesOf(*program, text),
            "the regex pattern gave up after byte 0 of a text of 40 bytes: match limit exceeded");
}

// Each match that is tried is short of what one may take; all of a text's together are not.
TEST(CutProgram, givesUpOnManyTriesOfOneText) {
  std::vector<uint32_t> words = writeCutProgram("(?:a|ab)+c");
  std::string error;
  std::unique_ptr<Regex> program = CutProgram::create(words.data(), words.size(), error);
  ASSERT_TRUE(program) << error;
  EXPECT_EQ(matchesOf(*program, std::string(1000, 'a')), "");
  EXPECT_EQ(matchesOf(*program, std::string(40000, 'a')),
            "the regex pattern gave up after byte 0 of a text of 40000 bytes: match limit exceeded");
}

TEST(CutProgram, takesLongRunsWithoutMemory) {
  std::vector<uint32_t> words = writeCutProgram("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
  std::string error, text(4 << 20, ' ');
  text += "x";
  std::unique_ptr<Regex> program = CutProgram::create(words.data(), words.size(), error);
  ASSERT_TRUE(program) << error;
  EXPECT_EQ(matchesOf(*program, text), "0:4194303 4194303:4194304 ");
}

TEST(CutProgram, refusesWordsThatAreNone) {
  const std::vector<uint32_t> good = writeCutProgram("[ab]+c");
  std::string error;
  ASSERT_TRUE(CutProgram::create(good.data(), good.size(), error)) << error;
  auto errorOf = [&](size_t word, uint32_t value) {
    std::vector<uint32_t> words = good;
    words[word] = value;
    std::string error;
    return CutProgram::create(words.data(), words.size(), error) ? "" : error;
  };
  EXPECT_FALSE(CutProgram::create(good.data(), 2, error));
  EXPECT_EQ(error, "the program of a pattern has 2 words, expected 0");
  for (size_t count = 0; count < good.size(); ++count)
    EXPECT_FALSE(CutProgram::create(good.data(), count, error)) << count;
  EXPECT_EQ(errorOf(0, 4), "the program of a pattern has 21 words, expected 25");
  EXPECT_EQ(errorOf(3, 7), "instruction 0 of the program of a pattern is not valid");
  EXPECT_EQ(errorOf(4, 2), "instruction 0 of the program of a pattern is not valid"); // its class
  EXPECT_EQ(errorOf(11, uint32_t(CutOp::Take)),
            "instruction 2 of the program of a pattern is not valid"); // it would be the last
  EXPECT_EQ(errorOf(15, 9), "class 0 of the program of a pattern ends at range 9, expected one in [0, 2]");
  // No value of any word makes a program that reads beyond its end or its text.
  for (size_t word = 0; word < good.size(); ++word)
    for (uint32_t value : {0u, 1u, 2u, 3u, 6u, 7u, 100u, UINT32_MAX}) {
      std::vector<uint32_t> words = good;
      words[word] = value;
      if (std::unique_ptr<Regex> program = CutProgram::create(words.data(), words.size(), error))
        matchesOf(*program, "abcab é c");
    }
}

} // namespace
