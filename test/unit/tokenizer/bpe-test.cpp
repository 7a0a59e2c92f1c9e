// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TestVocabulary.h"
#include "frontends/tokenizer/PreTokenizers.h"
#include "frontends/tokenizer/StepRecipes.h"

namespace heddle::test {

using package::PieceFlag;
using package::TextOp;
using package::TokenizerModel;

static TokenizerDraft byteLevel() {
  TokenizerDraft draft = draftOf(TokenizerModel::ByteLevelBpe,
                                 {"<s>", "a", "b", "c", "ab", "bc", "abc", " ", " a", "1", "2", "\xC3", "\xA9"});
  makeSpecial(draft, 0);
  addMerge(draft, "b", "c");
  addMerge(draft, "a", "b");
  addMerge(draft, "a", "bc");
  addMerge(draft, " ", "a");
  return draft;
}

TEST(Bpe, LowestRankJoinsFirst) {
  EXPECT_EQ(load(byteLevel()).encode("abc"), (Ids{6}));
}

TEST(Bpe, EqualRanksJoinFromTheLeft) {
  TokenizerDraft draft = draftOf(TokenizerModel::ByteLevelBpe, {"a", "aa"});
  addMerge(draft, "a", "a");
  EXPECT_EQ(load(draft).encode("aaa"), (Ids{1, 0}));
}

TEST(Bpe, BytesWithoutAPieceAreDropped) {
  EXPECT_EQ(load(byteLevel()).encode("a!b"), (Ids{1, 2}));
}

TEST(Bpe, PatternsCutOneAfterTheOther) {
  TokenizerDraft draft = byteLevel();
  draft.preTokenizer = {StepDraft::split(R"(\p{N})"), StepDraft::split(gpt2Pattern)};
  EXPECT_EQ(load(draft).encode("abc a12"), (Ids{6, 8, 9, 10}));
}

TEST(Bpe, WholeWordsWinWhereMergesAreIgnored) {
  TokenizerDraft draft = draftOf(TokenizerModel::ByteLevelBpe, {"a", "b", "ab", "aba"});
  addMerge(draft, "a", "b");
  EXPECT_EQ(load(draft).encode("aba"), (Ids{2, 0}));
  draft.ignoreMerges = true;
  EXPECT_EQ(load(draft).encode("aba"), (Ids{3}));
}

TEST(Bpe, EndOfWordSuffix) {
  TokenizerDraft draft = draftOf(TokenizerModel::SentencePieceBpe, {"a", "b</w>", "ab</w>", "a</w>"});
  draft.endOfWordSuffix = "</w>";
  addMerge(draft, "a", "b</w>");
  draft.preTokenizer = {StepDraft::split(R"(\s)", package::SplitBehavior::Removed)};
  EXPECT_EQ(load(draft).encode("ab a"), (Ids{2, 3}));
}

static TokenizerDraft sentencePiece() {
  TokenizerDraft draft = draftOf(TokenizerModel::SentencePieceBpe,
                                 {"<unk>", "\xE2\x96\x81", "a", "b", "ab", "\u2581ab", "<0xC3>", "<0xA9>"});
  makeSpecial(draft, 0);
  for (size_t id : {6, 7}) {
    draft.pieces[id].kind = package::TokenKind::Byte;
    draft.pieces[id].flags = PieceFlag::Unmatched;
  }
  draft.unknown = 0;
  draft.byteFallback = true;
  addSentencePieceSteps(draft, "", false, true);
  return draft;
}

TEST(SentencePieceBpe, HighestScoreJoinsFirst) {
  LoadedTokenizer t = load(sentencePiece());
  EXPECT_EQ(t.encode("ab"), (Ids{5}));
  EXPECT_EQ(t.encode("ab ab"), (Ids{5, 5}));
}

TEST(SentencePieceBpe, CharactersWithoutAPieceFallBackToBytes) {
  LoadedTokenizer t = load(sentencePiece());
  EXPECT_EQ(t.encode("a\xC3\xA9"), (Ids{1, 2, 6, 7}));
  EXPECT_EQ(t.decode({1, 2, 6, 7}), "a\xC3\xA9");
}

TEST(SentencePieceBpe, BytesWithoutATokenAreUnknown) {
  EXPECT_EQ(load(sentencePiece()).encode("z"), (Ids{1, 0}));
}

TEST(SentencePieceBpe, LongWordIsLinear) {
  std::string word;
  for (int i = 0; i < 200000; ++i)
    word += "ab";
  EXPECT_EQ(load(sentencePiece()).encode(word).size(), 200000u);
}

TEST(SpecialTokens, AreParsedWhereAsked) {
  LoadedTokenizer t = load(byteLevel());
  EXPECT_EQ(t.encode("a<s>b"), (Ids{1, 0, 2}));
  EncodeOptions plain;
  plain.parseSpecial = false;
  EXPECT_EQ(t.encode("a<s>b", plain), (Ids{1, 2})); // "<s>" has no bytes in this vocabulary
}

TEST(SpecialTokens, AreTextInUntrustedRanges) {
  LoadedTokenizer t = load(byteLevel());
  EncodeOptions options;
  options.untrusted = {{3, 4}};
  EXPECT_EQ(t.encode("<s>a<s>", options), (Ids{0, 1, 0}));
  options.untrusted = {{4, 5}}; // one byte of the second token
  EXPECT_EQ(t.encode("<s>a<s>", options), (Ids{0, 1}));
}

TEST(SpecialTokens, LongestWins) {
  TokenizerDraft draft = draftOf(TokenizerModel::ByteLevelBpe, {"<s>", "<s>>", "a"});
  makeSpecial(draft, 0);
  makeSpecial(draft, 1);
  EXPECT_EQ(load(draft).encode("<s>><s>a"), (Ids{1, 0, 2}));
}

TEST(SpecialTokens, StripTakesWhiteSpace) {
  TokenizerDraft draft = byteLevel();
  EXPECT_EQ(load(draft).encode("a <s> a"), (Ids{1, 7, 0, 8}));
  draft.pieces[0].flags |= PieceFlag::LeftStrip | PieceFlag::RightStrip;
  EXPECT_EQ(load(draft).encode("a <s> a"), (Ids{1, 0, 1}));
}

TEST(SpecialTokens, SingleWordsStandAlone) {
  TokenizerDraft draft = draftOf(TokenizerModel::ByteLevelBpe, {"ab", "a", "b", "c", " "});
  draft.pieces[0].flags = PieceFlag::Added | PieceFlag::SingleWord | PieceFlag::Unmatched;
  EXPECT_EQ(load(draft).encode("ab abc"), (Ids{0, 4, 1, 2, 3}));
}

TEST(SpecialTokens, SurroundAPrompt) {
  TokenizerDraft draft = byteLevel();
  draft.prefix = {0};
  LoadedTokenizer t = load(draft);
  EXPECT_EQ(t.encode("a"), (Ids{0, 1}));
  EncodeOptions bare;
  bare.addSpecial = false;
  EXPECT_EQ(t.encode("a", bare), (Ids{1}));
}

TEST(Encode, RefusesWhatIsNotText) {
  LoadedTokenizer t = load(byteLevel());
  Ids ids;
  std::string error;
  EXPECT_FALSE(t.tokenizer->encode("a\xFF", {}, ids, error));
  EXPECT_EQ(error, "the text is not valid UTF-8 at byte 1");
  error.clear();
  EXPECT_FALSE(t.tokenizer->encode(std::string(Tokenizer::maxText + 1, 'a'), {}, ids, error));
  EXPECT_NE(error.find("exceeds the limit of 16777216"), std::string::npos) << error;
}

TEST(Encode, RegexThatBacktracksWithoutEndIsAnError) {
  TokenizerDraft draft = byteLevel();
  draft.preTokenizer = {StepDraft::split("(?:a+)+$")};
  LoadedTokenizer t = load(draft);
  Ids ids;
  std::string error;
  EXPECT_FALSE(t.tokenizer->encode(std::string(60, 'a') + "b", {}, ids, error));
  EXPECT_NE(error.find("limit"), std::string::npos) << error;
  EXPECT_EQ(error.find("tokenizer pre_tokenizer[0]: the regex pattern gave up after byte 0"), 0u) << error;
  draft.preTokenizer.clear();
  draft.normalizer = {StepDraft::of(TextOp::Nfc), StepDraft::replace("(?:a+)+$", "")};
  draft.normalizer[1].flags = 1;
  LoadedTokenizer normalizes = load(draft);
  error.clear();
  EXPECT_FALSE(normalizes.tokenizer->encode(std::string(60, 'a') + "b", {}, ids, error));
  EXPECT_EQ(error.find("tokenizer normalizer[1]: the regex pattern gave up after byte 0"), 0u) << error;
}

TEST(Encode, NormalizerThatExplodesIsAnError) {
  TokenizerDraft draft = byteLevel();
  draft.normalizer.assign(60, StepDraft::replace("a", "aa"));
  LoadedTokenizer t = load(draft);
  Ids ids;
  std::string error;
  EXPECT_FALSE(t.tokenizer->encode("a", {}, ids, error));
  EXPECT_NE(error.find("grows beyond the limit"), std::string::npos) << error;
}

} // namespace heddle::test
