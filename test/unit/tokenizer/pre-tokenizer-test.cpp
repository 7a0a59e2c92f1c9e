// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where texts are cut into words. What is expected is what Hugging Face's tokenizers make of the patterns of the models' own files.
#include "TestVocabulary.h"
#include "frontends/tokenizer/PreTokenizers.h"

#include <set>

namespace heddle::test {

using package::SplitBehavior;

// The words of a text, with | between them.
static std::string wordsOf(const std::vector<StepDraft> &preTokenizer, const std::string &text) {
  std::vector<std::string> bytes(256);
  for (size_t byte = 0; byte < bytes.size(); ++byte)
    bytes[byte] = static_cast<char>(byte);
  TokenizerDraft draft = draftOf(package::TokenizerModel::ByteLevelBpe, bytes);
  draft.preTokenizer = preTokenizer;
  LoadedTokenizer loaded = load(draft);
  std::vector<TokenPlace> places;
  Ids ids;
  std::string error, words;
  EXPECT_TRUE(loaded.tokenizer->encode(text, {}, ids, error, &places)) << error;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i && places[i].word != places[i - 1].word)
      words += '|';
    words += static_cast<char>(ids[i]);
  }
  return words;
}

static std::vector<StepDraft> stepsOf(const NamedPreTokenizer &pre) {
  std::vector<StepDraft> steps;
  steps.reserve(pre.patterns.size());
  for (const char *pattern : pre.patterns)
    steps.push_back(StepDraft::split(pattern));
  return steps;
}

TEST(PreTokenizers, EveryKnownPatternCompiles) {
  std::string names = knownPreTokenizers();
  std::set<const NamedPreTokenizer *> seen;
  for (size_t begin = 0; begin < names.size();) {
    size_t end = std::min(names.find(", ", begin), names.size());
    std::string name = names.substr(begin, end - begin);
    const NamedPreTokenizer *pre = findPreTokenizer(name);
    ASSERT_NE(pre, nullptr) << name;
    if (seen.insert(pre).second)
      EXPECT_EQ(wordsOf(stepsOf(*pre), "abc"), "abc") << name;
    begin = end + 2;
  }
  EXPECT_EQ(findPreTokenizer("nonesuch"), nullptr);
}

TEST(PreTokenizers, CutAsTheFilesOfTheModelsSay) {
  const struct {
    const char *name, *text, *words;
  } cases[] = {
      {"llama3", "I'LL say 1234 .\n\n x", "I|'LL| say| |123|4| .\n\n| x"},
      {"qwen2", "कि 1234", "क|ि| |1|2|3|4"},
      {"qwen35", "कि 1234 e\u0301!\u0301", "कि| |1|2|3|4| e\u0301|!\u0301"},
      {"ufakzeka", "Ankara'da I'm", "Ankara|'da| I|'m"},
      {"laguna", " \n\nx !\n", " |\n\n|x| !|\n"},
      {"seed-coder", "x !\n\ny", "x| !|\n\n|y"},
      {"minicpm5", "12345 x²", "123|45| x|²"},
      {"bailingmoe", "I'VE \n\n a'd", "I|'VE| \n\n| a|'d"},
      {"exaone-moe", "a b कि !//\n\n", "a b कि| !//\n|\n"},
      {"jais-2", "a       b", "a|    |  | b"},
      {"exaone", "v12 3", "v|1|2| |3"},
      {"exaone4", "v12 3", "v|12| 3"},
      {"bloom", "Hello, (big) world!۔x  y", "Hello|, (|big|)| world|!۔|x| | y"},
      {"viking", "v12, x", "v|1|2|,| x"},
      {"chameleon", "IMGIMGABZ <sentinel:12>  a\tb!!", "IMGIMGABZ| |<|sentinel|:|1|2|>|  |a|\t|b|!|!"},
      {"afmoe", "by 1234567 x12 \u4e2d\u6587abc!x", "by| |1|234|567| x|12| |\u4e2d\u6587|abc|!x"},
      {"superbpe", "by the way 1234567 x12", "by the way |1|234|567| x|12"},
      {"deepseek-v3", "日本 (ok)!\n\n1234", "日本| (|ok|)!\n\n|123|4"},
      {"spark2_5", "!\n\n1234", "!|\n|\n|1|2|3|4"},
      {"gpt-4o", "HelloWORLD's 1234 a/\n", "Hello|WORLD's| |123|4| a|/\n"},
      {"tekken", "HelloWORLD's 12 a/\n", "Hello|WORLD|'s| |1|2| a|/\n"},
      {"tiny_aya", "1234567 12² a1234", "1|234|567| |12²| a|1|234"},
      {"youtu", "中文，한글ㄅㄆ12 aB's", "中文|，|한글|ㄅㄆ|1|2| a|B's"},
      {"kimi-k2", "漢字aB漢's 1234 e\u0301/\n", "漢字|a|B|漢|'s| |123|4| e\u0301|/\n"},
  };
  for (const auto &c : cases) {
    const NamedPreTokenizer *pre = findPreTokenizer(c.name);
    ASSERT_NE(pre, nullptr) << c.name;
    EXPECT_EQ(wordsOf(stepsOf(*pre), c.text), c.words) << c.name;
  }
}

// Characters of Latin-1 that are no letters, and one of Mongolian that Unicode has no longer among its white space.
TEST(Split, ClassesAreOnigurumas) {
  EXPECT_EQ(wordsOf({StepDraft::split(R"(\w+)")}, "x\u00b2\u00bd_\u0301.\u2468\u2160."),
            "x\u00b2\u00bd_\u0301|.\u2468|\u2160|.");
  EXPECT_EQ(wordsOf({StepDraft::split(R"([\w]+)")}, "x\u00b2_"), "x|\u00b2|_");
  EXPECT_EQ(wordsOf({StepDraft::split(R"(\s+)")}, "a\u180e \u3000b"), "a\u180e| \u3000|b");
  EXPECT_EQ(wordsOf({StepDraft::split(R"([^\s]+)")}, "a\u180e\u0085b"), "a\u180e|\u0085|b");
}

TEST(Split, AMatchOfNothingCuts) {
  auto words = [](const char *pattern, SplitBehavior behavior, const char *text, bool invert = false) {
    return wordsOf({StepDraft::split(pattern, behavior, invert)}, text);
  };
  EXPECT_EQ(words("(?=b)", SplitBehavior::Isolated, "aabab"), "aa|ba|b");
  EXPECT_EQ(words("(?=b)", SplitBehavior::Removed, "aabab"), "aa|ba|b");
  EXPECT_EQ(words("(?=a)|b", SplitBehavior::MergedWithNext, "abbab"), "a|b|ba|b");
  EXPECT_EQ(words("b*", SplitBehavior::MergedWithPrevious, "abba"), "abb|a");
  EXPECT_EQ(words("b*", SplitBehavior::Contiguous, "aabb"), "a|a|bb");
  EXPECT_EQ(words("(?=b)", SplitBehavior::Removed, "aab", true), "");
}

} // namespace heddle::test
