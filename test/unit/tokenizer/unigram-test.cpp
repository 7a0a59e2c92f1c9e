// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TestVocabulary.h"
#include "frontends/tokenizer/StepRecipes.h"

namespace heddle::test {

using package::TokenizerModel;

static TokenizerDraft unigram() {
  TokenizerDraft draft = draftOf(TokenizerModel::Unigram, {"<unk>", "a", "b", "ab", "abb", "\xE2\x96\x81", "</s>"});
  draft.pieces[0].kind = package::TokenKind::Unknown;
  draft.pieces[0].flags = package::PieceFlag::Unmatched;
  makeSpecial(draft, 6);
  float scores[] = {0, -2, -2, -3, -8, -1, 0};
  for (size_t id = 0; id < draft.pieces.size(); ++id)
    draft.pieces[id].score = scores[id];
  draft.unknown = 0;
  draft.fuseUnknown = true;
  return draft;
}

// a+b+b = -6, ab+b = -5, abb = -8.
TEST(Unigram, TheMostProbableSegmentationWins) {
  EXPECT_EQ(load(unigram()).encode("abb"), (Ids{3, 2}));
}

TEST(Unigram, UnknownCharactersAreFused) {
  TokenizerDraft draft = unigram();
  EXPECT_EQ(load(draft).encode("a\xC3\xA9zb"), (Ids{1, 0, 2}));
  draft.fuseUnknown = false;
  EXPECT_EQ(load(draft).encode("a\xC3\xA9zb"), (Ids{1, 0, 0, 2}));
}

TEST(Unigram, SentencePieceStepsCollapseAndMarkSpaces) {
  TokenizerDraft draft = unigram();
  addSentencePieceSteps(draft, "", true, true);
  draft.suffix = {6};
  LoadedTokenizer t = load(draft);
  EXPECT_EQ(t.encode("  a   b "), (Ids{5, 1, 5, 2, 6}));
  EXPECT_EQ(t.decode({5, 1, 5, 2, 6}, true), "a b");
}

// A trie with one key, "x", whose replacement is "ab": units root, then for 'x' its node and the leaf.
TEST(Unigram, CharsmapReplaces) {
  std::vector<uint32_t> units(512, 0);
  units[0] = 256u << 10;                                           // children of the root from 256
  units['x' ^ 256] = 'x' | 1u << 8 | ((('x' ^ 256) ^ 300u) << 10); // leaf at 300
  units[300] = 1u << 31 | 0;                                       // value 0: the first replacement
  std::string bytes;
  auto put = [&](uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8)
      bytes += static_cast<char>(value >> shift & 0xFF);
  };
  put(static_cast<uint32_t>(units.size() * 4));
  for (uint32_t unit : units)
    put(unit);
  bytes += std::string("ab\0", 3);
  TokenizerDraft draft = unigram();
  addSentencePieceSteps(draft, bytes, false, false);
  EXPECT_EQ(load(draft).encode("xb"), (Ids{3, 2}));
  draft.normalizer[0].bytes.resize(100);
  auto damaged = writeTokenizer(draft);
  ASSERT_FALSE(damaged);
  EXPECT_NE(damaged.message().find("precompiled_charsmap"), std::string::npos);
}

TEST(Unigram, ScoresMustBeFinite) {
  TokenizerDraft draft = unigram();
  draft.pieces[2].score = std::numeric_limits<float>::quiet_NaN();
  auto table = writeTokenizer(draft);
  ASSERT_FALSE(table);
  EXPECT_EQ(table.message(), "test: the score of token 2 is not a finite number");
}

} // namespace heddle::test
