// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vocabularies built in code, and Hugging Face directories written for one test.
#ifndef HEDDLE_TEST_UNIT_TOKENIZER_TESTVOCABULARY_H
#define HEDDLE_TEST_UNIT_TOKENIZER_TESTVOCABULARY_H

#include "frontends/tokenizer/TokenizerDraft.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <gtest/gtest.h>

#include <map>

namespace heddle::test {

using Ids = std::vector<int32_t>;

// A tokenizer and the table it reads.
struct LoadedTokenizer {
  std::string table;
  std::unique_ptr<Tokenizer> tokenizer;

  Ids encode(std::string_view text, EncodeOptions options = {}) const;
  std::string decode(const Ids &ids, bool skipSpecial = false) const;
};
LoadedTokenizer load(const TokenizerDraft &draft);
LoadedTokenizer loadFrom(const std::string &path);

// Pieces in order of id, all Normal, score minus their id.
TokenizerDraft draftOf(package::TokenizerModel model, const std::vector<std::string> &pieces);
// Joins two pieces whose concatenation is one.
void addMerge(TokenizerDraft &draft, const std::string &left, const std::string &right);
void makeSpecial(TokenizerDraft &draft, int64_t id);

// A folder that lives as long as the object.
class TemporaryFolder {
public:
  explicit TemporaryFolder(const std::map<std::string, std::string> &files);
  ~TemporaryFolder();
  const std::string &path() const { return folder; }

private:
  std::string folder;
};

// What readTokenizer says about a folder of these files; empty if it accepts them.
std::string errorOf(const std::map<std::string, std::string> &files);

} // namespace heddle::test

#endif
