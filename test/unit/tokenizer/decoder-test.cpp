// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TestVocabulary.h"
#include "runtime/text/tokenizer/TokenDecoder.h"

namespace heddle::test {

static LoadedTokenizer bytes() {
  TokenizerDraft draft =
      draftOf(package::TokenizerModel::ByteLevelBpe, {"<s>", "\xF0", "\x9F", "\x98", "\x80", "a", "\xE2\x82", "\xAC"});
  makeSpecial(draft, 0);
  return load(draft);
}

TEST(TokenDecoder, GivesWholeCharactersOnly) {
  LoadedTokenizer t = bytes();
  TokenDecoder decoder(*t.tokenizer, false);
  std::string text;
  for (int32_t id : {1, 2, 3}) {
    decoder.append(id, text);
    EXPECT_EQ(text, "");
  }
  decoder.append(4, text);
  EXPECT_EQ(text, "\xF0\x9F\x98\x80");
}

TEST(TokenDecoder, BrokenSequencesBecomeReplacements) {
  LoadedTokenizer t = bytes();
  EXPECT_EQ(t.decode({1, 5}), "\xEF\xBF\xBD"
                              "a");
  EXPECT_EQ(t.decode({6}), "\xEF\xBF\xBD");
  EXPECT_EQ(t.decode({7, 6, 7}), "\xEF\xBF\xBD\xE2\x82\xAC");
}

TEST(TokenDecoder, SkipsSpecialTokensWhereAsked) {
  LoadedTokenizer t = bytes();
  EXPECT_EQ(t.decode({0, 5, 0}), "<s>a<s>");
  EXPECT_EQ(t.decode({0, 5, 0}, true), "a");
}

TEST(TokenDecoder, RefusesIdsOutOfRange) {
  LoadedTokenizer t = bytes();
  std::string text, error;
  EXPECT_FALSE(t.tokenizer->decode({8}, false, text, error));
  EXPECT_EQ(error, "id 8 at index 0 is outside the vocabulary of 8");
}

TEST(TokenDecoder, RowsWithoutTokenHaveNoText) {
  LoadedTokenizer t = bytes();
  TokenDecoder decoder(*t.tokenizer, true);
  std::string text;
  for (int32_t id : {5, 8, 1 << 20, -1, 5})
    decoder.append(id, text);
  EXPECT_EQ(text, "aa");
}

TEST(TokenDecoder, RoundTripsAllBytes) {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte)
    pieces.push_back(std::string(1, static_cast<char>(byte)));
  LoadedTokenizer t = load(draftOf(package::TokenizerModel::ByteLevelBpe, pieces));
  std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\n\t";
  text += '\0';
  EXPECT_EQ(t.decode(t.encode(text)), text);
}

} // namespace heddle::test
