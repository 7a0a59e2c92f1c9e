// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TestVocabulary.h"
#include "frontends/tokenizer/StepRecipes.h"

namespace heddle::test {

static TokenizerDraft bert() {
  TokenizerDraft draft = draftOf(package::TokenizerModel::WordPiece,
                                 {"[UNK]", "un", "##aff", "##able", "cafe", ",", "\xE4\xB8\xAD", "##able2"});
  makeSpecial(draft, 0);
  draft.unknown = 0;
  draft.continuingPrefix = "##";
  addBertSteps(draft, true, true, true, true);
  draft.decoder = {StepDraft{package::TextOp::WordJoin, "##", {}, {}, 1}};
  return draft;
}

TEST(WordPiece, TheLongestPieceMatches) {
  EXPECT_EQ(load(bert()).encode("unaffable"), (Ids{1, 2, 3}));
}

TEST(WordPiece, OneUnknownPartMakesTheWordUnknown) {
  EXPECT_EQ(load(bert()).encode("unaffzz un"), (Ids{0, 1}));
}

TEST(WordPiece, AccentsAndCaseGoAndSignsStandAlone) {
  EXPECT_EQ(load(bert()).encode("Caf\xC3\xA9,UN\xE4\xB8\xAD"), (Ids{4, 5, 1, 6}));
}

TEST(WordPiece, LongWordsAreUnknown) {
  TokenizerDraft draft = bert();
  draft.maxWord = 8;
  EXPECT_EQ(load(draft).encode("unaffable"), (Ids{0}));
}

TEST(WordPiece, DecodeJoinsWordsAndTidies) {
  EXPECT_EQ(load(bert()).decode({1, 2, 3, 5, 4}), "unaffable, cafe");
}

TEST(WordPiece, NeedsAnUnknownToken) {
  TokenizerDraft draft = bert();
  draft.unknown = -1;
  auto table = writeTokenizer(draft);
  ASSERT_FALSE(table);
  EXPECT_NE(table.message().find("unk_token"), std::string::npos);
}

} // namespace heddle::test
