// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where texts are cut into words. What is expected is what Hugging Face's tokenizers answer.
#include "TestVocabulary.h"

namespace heddle::test {

using package::SplitBehavior;

// The words of a text, with | between them.
static std::string wordsOf(const std::vector<StepDraft> &preTokenizer, const std::string &text) {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte)
    bytes.emplace_back(1, static_cast<char>(byte));
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
