// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where in a text each token stands.
#include "TestVocabulary.h"
#include "frontends/tokenizer/StepRecipes.h"

namespace heddle::test {

using package::TextOp;

// "begin-end/word" of each token, in bytes.
static std::string placesOf(const TokenizerDraft &draft, const std::string &text) {
  LoadedTokenizer loaded = load(draft);
  std::vector<TokenPlace> places;
  Ids ids;
  std::string error, said;
  EXPECT_TRUE(loaded.tokenizer->encode(text, {}, ids, error, &places)) << error;
  EXPECT_EQ(ids, loaded.encode(text)); // the same with places and without
  EXPECT_EQ(ids.size(), places.size());
  for (const TokenPlace &place : places)
    said += (said.empty() ? "" : " ") + std::to_string(place.begin) + "-" + std::to_string(place.end) + "/" +
            std::to_string(place.word);
  return said;
}

static TokenizerDraft wordPiece() {
  TokenizerDraft draft = draftOf(package::TokenizerModel::WordPiece,
                                 {"[UNK]", "un", "##aff", "##able", "cafe", ",", "\xE4\xB8\xAD", "[CLS]", "[SEP]"});
  for (int64_t id : {0, 7, 8})
    makeSpecial(draft, id);
  draft.unknown = 0;
  draft.continuingPrefix = "##";
  draft.prefix = {7}, draft.suffix = {8};
  addBertSteps(draft, true, true, true, true);
  return draft;
}

TEST(Places, WhatStandsAroundATextHasNone) {
  EXPECT_EQ(placesOf(wordPiece(), "un"), "0-0/-1 0-2/0 0-0/-1");
}

TEST(Places, PiecesOfAWord) {
  EXPECT_EQ(placesOf(wordPiece(), " unaffable un"), "0-0/-1 1-3/0 3-6/0 6-10/0 11-13/1 0-0/-1");
}

TEST(Places, AnUnknownWordIsWhole) {
  EXPECT_EQ(placesOf(wordPiece(), "unaffzz un"), "0-0/-1 0-7/0 8-10/1 0-0/-1");
}

TEST(Places, AccentsAndSpacesThatComeAndGo) {
  // e with a mark behind it, which goes, and as one character; a control character that goes; an ideograph that gets spaces.
  EXPECT_EQ(placesOf(wordPiece(), "cafe\xCC\x81,Caf\xC3\xA9 \x01\xE4\xB8\xADUN"),
            "0-0/-1 0-4/0 6-7/1 7-12/2 14-17/3 17-19/4 0-0/-1");
}

TEST(Places, ATokenInTheTextIsAWord) {
  EXPECT_EQ(placesOf(wordPiece(), "un [SEP] un"), "0-0/-1 0-2/0 3-8/1 9-11/2 0-0/-1");
}

TEST(Places, BytesOfACharacterAreTheCharacter) {
  TokenizerDraft draft = draftOf(package::TokenizerModel::ByteLevelBpe, {"\xC3", "\xA9", " ", "a", " a"});
  addMerge(draft, " ", "a");
  draft.preTokenizer = {StepDraft::of(TextOp::PrefixSpace), StepDraft::split(" ?a+|\\S")};
  // A space that is a token's, and not the text's, is no part of its place.
  EXPECT_EQ(placesOf(draft, "a a\xC3\xA9"), "0-1/0 2-3/1 3-5/2 3-5/2");
}

TEST(Places, UnigramAndItsUnknown) {
  TokenizerDraft draft = draftOf(package::TokenizerModel::Unigram, {"<unk>", "\xE2\x96\x81", "a",
                                                                    "\xE2\x96\x81"
                                                                    "a"});
  draft.unknown = 0;
  draft.fuseUnknown = true;
  draft.normalizer = {StepDraft::of(TextOp::CollapseSpaces), StepDraft::of(TextOp::Nfkc)};
  draft.preTokenizer = {StepDraft{TextOp::Metaspace, {}, "\xE2\x96\x81", {}, 1}};
  // A token of white space alone has a place without a length.
  EXPECT_EQ(placesOf(draft, "  a   xyz a"), "2-3/0 4-4/0 6-9/0 10-11/0");
}

TEST(Places, AComposedCharacterStandsForItsParts) {
  TokenizerDraft draft = draftOf(package::TokenizerModel::SentencePieceBpe,
                                 {"<unk>", "\xC3\xA9", "a", "x\xCC\x81", "x", "\xCC\x81", "\xEA\xB0\x80"});
  draft.unknown = 0;
  draft.normalizer = {StepDraft::of(TextOp::Nfc)};
  // e and a mark join; x and a mark do not; two letters of Hangul do.
  EXPECT_EQ(placesOf(draft, "ae\xCC\x81x\xCC\x81\xE1\x84\x80\xE1\x85\xA1"), "0-1/0 1-4/0 4-7/0 7-13/0");
  EXPECT_EQ(placesOf(draft, "\xCC\x81x\xCC\x81\xCC\x81"), "0-2/0 2-5/0 5-7/0");
}

TEST(Places, WhatReplacesStandsForWhatItReplaced) {
  TokenizerDraft draft = draftOf(package::TokenizerModel::SentencePieceBpe, {"<unk>", "a", "bc", "b", "c"});
  draft.unknown = 0;
  StepDraft digits = StepDraft::replace("[0-9]+", "bc");
  digits.flags = 1;
  draft.normalizer = {digits, StepDraft::replace("xx", ""), StepDraft::prepend("a")};
  EXPECT_EQ(placesOf(draft, "123xxa"), "0-3/0 0-3/0 5-6/0");
}

TEST(Places, ATextThatBecomesEmptyAndGrowsAgain) {
  TokenizerDraft draft = draftOf(package::TokenizerModel::SentencePieceBpe, {"<unk>", "a"});
  draft.unknown = 0;
  StepDraft start = StepDraft::replace("^", "a");
  start.flags = 1;
  draft.normalizer = {StepDraft{TextOp::Strip, {}, {}, {}, 3}, start};
  EXPECT_EQ(placesOf(draft, "   "), "0-0/0");
}

} // namespace heddle::test
