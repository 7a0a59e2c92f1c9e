// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/TokenizerReader.h"

#include "bytes/Status.h"
#include "frontends/read/ReadModel.h"
#include "frontends/tokenizer/GgufTokenizer.h"
#include "frontends/tokenizer/TokenizerFiles.h"

#include <cstring>

namespace heddle {

static Expected<std::string> readGguf(ModelFiles &files, int64_t vocabSize) {
  auto file = GgufFile::open(files);
  if (!file)
    return file.status();
  TokenizerDraft draft;
  draft.vocabSize = vocabSize;
  HEDDLE_RETURN_IF_ERROR(readGgufTokenizer(*file, draft));
  if (draft.model == package::TokenizerModel::None)
    return std::string();
  return writeTokenizer(std::move(draft));
}

static bool startsWithGguf(const MappedFile &file) {
  return file.size() >= 4 && memcmp(file.data(), "GGUF", 4) == 0;
}

static bool endsWith(const std::string &text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

// The files that may hold a vocabulary, best first: the later ones are what older libraries wrote beside it.
static constexpr struct {
  const char *name;
  Status (*read)(ModelFiles &, const std::string &, TokenizerDraft &);
} vocabularyFiles[] = {
    {"tokenizer.json", readTokenizerJson},
    {"tokenizer.model", readSentencePieceModel},
    {"spiece.model", readSentencePieceModel},
    {"sentencepiece.bpe.model", readSentencePieceModel},
    {"vocab.json", readVocabJson},
    {"vocab.txt", readVocabTxt},
};

// Reads the file called `only`, or the first vocabulary that is there if it is empty.
static Expected<std::string> readVocabulary(ModelFiles &files, const std::string &only, int64_t vocabSize) {
  for (const auto &candidate : vocabularyFiles) {
    if (only.empty() ? !files.has(candidate.name) : !endsWith(only, candidate.name))
      continue;
    TokenizerDraft draft;
    draft.vocabSize = vocabSize;
    draft.chatTemplateFile = files.pathOf("tokenizer_config.json");
    HEDDLE_RETURN_IF_ERROR(candidate.read(files, only.empty() ? candidate.name : only, draft));
    HEDDLE_RETURN_IF_ERROR(readTokenizerConfig(files, draft));
    return writeTokenizer(std::move(draft));
  }
  return std::string();
}

Expected<std::string> readTokenizer(ModelFiles &files, int64_t vocabSize) {
  const std::string &path = files.model();
  if (!files.isThere())
    return errorIn(path, "no such file or directory").as(StatusCode::Unreadable);
  if (files.isFolder())
    return readVocabulary(files, "", vocabSize);
  auto file = files.open();
  if (!file)
    return file.status();
  if (startsWithGguf(**file))
    return readGguf(files, vocabSize);
  for (const auto &candidate : vocabularyFiles)
    if (endsWith(path, candidate.name))
      return readVocabulary(files, files.fileName(), vocabSize);
  // Graphs and safetensors files have their tokenizer beside them.
  if (isOnnx(files) || endsWith(path, ".mlir") || endsWith(path, ".safetensors"))
    return readVocabulary(files, "", vocabSize);
  return readGguf(files, vocabSize);
}

Expected<std::string> readTokenizer(const std::string &modelPath) {
  ModelFiles files(modelPath);
  return readTokenizer(files);
}

} // namespace heddle
