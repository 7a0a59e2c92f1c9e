// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TestVocabulary.h"

#include "frontends/tokenizer/TokenizerReader.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace heddle::test {

Ids LoadedTokenizer::encode(std::string_view text, EncodeOptions options) const {
  Ids ids;
  std::string error;
  EXPECT_TRUE(tokenizer->encode(text, options, ids, error)) << error;
  return ids;
}

std::string LoadedTokenizer::decode(const Ids &ids, bool skipSpecial) const {
  std::string text, error;
  EXPECT_TRUE(tokenizer->decode(ids, skipSpecial, text, error)) << error;
  return text;
}

static LoadedTokenizer fromTable(Expected<std::string> table) {
  LoadedTokenizer loaded;
  EXPECT_TRUE(table) << (table ? "" : table.message());
  if (!table)
    return loaded;
  loaded.table = *table;
  std::string error;
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(loaded.table.data()), loaded.table.size());
  EXPECT_TRUE(verifier.VerifyBuffer<package::Tokenizer>(nullptr));
  loaded.tokenizer = Tokenizer::create(*flatbuffers::GetRoot<package::Tokenizer>(loaded.table.data()), error);
  EXPECT_NE(loaded.tokenizer, nullptr) << error;
  return loaded;
}

LoadedTokenizer load(const TokenizerDraft &draft) {
  return fromTable(writeTokenizer(draft));
}
LoadedTokenizer loadFrom(const std::string &path) {
  return fromTable(readTokenizer(path));
}

TokenizerDraft draftOf(package::TokenizerModel model, const std::vector<std::string> &pieces) {
  TokenizerDraft draft;
  draft.file = draft.chatTemplateFile = "test";
  draft.model = model;
  for (const std::string &text : pieces)
    draft.pieces.push_back({text, -static_cast<float>(draft.pieces.size()), package::TokenKind::Normal});
  return draft;
}

void addMerge(TokenizerDraft &draft, const std::string &left, const std::string &right) {
  PieceIds ids = indexPieces(draft.pieces);
  draft.merges.emplace_back(ids.at(left), ids.at(right), ids.at(left + right));
}

void makeSpecial(TokenizerDraft &draft, int64_t id) {
  using package::PieceFlag;
  draft.pieces[static_cast<size_t>(id)].kind = package::TokenKind::Control;
  draft.pieces[static_cast<size_t>(id)].flags = PieceFlag::Special | PieceFlag::Added | PieceFlag::Unmatched;
}

TemporaryFolder::TemporaryFolder(const std::map<std::string, std::string> &files) {
  std::string pattern = (std::filesystem::temp_directory_path() / "heddle-XXXXXX").string();
  folder = mkdtemp(pattern.data());
  for (const auto &[name, content] : files)
    std::ofstream(folder + "/" + name, std::ios::binary) << content;
}

TemporaryFolder::~TemporaryFolder() {
  std::filesystem::remove_all(folder);
}

std::string errorOf(const std::map<std::string, std::string> &files) {
  TemporaryFolder folder(files);
  auto table = readTokenizer(folder.path());
  std::string message = table ? "" : table.message();
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 4096u);
  return message;
}

} // namespace heddle::test
