// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/TokenizerReader.h"

#include "bytes/Status.h"
#include "frontends/read/ReadModel.h"
#include "frontends/tokenizer/GgufTokenizer.h"
#include "frontends/tokenizer/TokenizerFiles.h"

#include <cstdio>
#include <cstring>
#include <sys/stat.h>

namespace heddle {

static Expected<std::string> readGguf(const std::string &path, int64_t vocabSize) {
  auto file = GgufFile::open(path);
  if (!file)
    return file.status();
  TokenizerDraft draft;
  draft.vocabSize = vocabSize;
  HEDDLE_RETURN_IF_ERROR(readGgufTokenizer(*file, draft));
  if (draft.model == package::TokenizerModel::None)
    return std::string();
  return writeTokenizer(std::move(draft));
}

static bool startsWithGguf(const std::string &path) {
  auto file = openShared(path);
  return file && (*file)->size() >= 4 && memcmp((*file)->data(), "GGUF", 4) == 0;
}

static std::string directoryOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

static bool endsWith(const std::string &text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

// The files that may hold a vocabulary, best first: the later ones are what older libraries wrote beside it.
static constexpr struct {
  const char *name;
  Status (*read)(const std::string &, TokenizerDraft &);
} vocabularyFiles[] = {
    {"tokenizer.json", readTokenizerJson},
    {"tokenizer.model", readSentencePieceModel},
    {"spiece.model", readSentencePieceModel},
    {"sentencepiece.bpe.model", readSentencePieceModel},
    {"vocab.json", readVocabJson},
    {"vocab.txt", readVocabTxt},
};

// Reads `only`, or the first vocabulary of the directory if it is empty.
static Expected<std::string> readDirectory(const std::string &directory, const std::string &only, int64_t vocabSize) {
  for (const auto &candidate : vocabularyFiles) {
    std::string path = directory + "/" + candidate.name;
    if (only.empty() ? !fileExists(path) : !endsWith(only, candidate.name))
      continue;
    TokenizerDraft draft;
    draft.vocabSize = vocabSize;
    draft.chatTemplateFile = directory + "/tokenizer_config.json";
    HEDDLE_RETURN_IF_ERROR(candidate.read(only.empty() ? path : only, draft));
    HEDDLE_RETURN_IF_ERROR(readTokenizerConfig(directory, draft));
    return writeTokenizer(std::move(draft));
  }
  return std::string();
}

Expected<std::string> readTokenizer(const std::string &modelPath, int64_t vocabSize) {
  struct stat info;
  if (stat(modelPath.c_str(), &info) != 0)
    return errorIn(modelPath, "no such file or directory");
  if (S_ISDIR(info.st_mode))
    return readDirectory(modelPath, "", vocabSize);
  if (!S_ISREG(info.st_mode))
    return errorIn(modelPath, "is neither a regular file nor a directory");
  if (startsWithGguf(modelPath))
    return readGguf(modelPath, vocabSize);
  std::string directory = directoryOf(modelPath);
  for (const auto &candidate : vocabularyFiles)
    if (endsWith(modelPath, candidate.name))
      return readDirectory(directory, modelPath, vocabSize);
  // ONNX and safetensors files have their tokenizer beside them.
  if (isOnnx(modelPath) || endsWith(modelPath, ".safetensors"))
    return readDirectory(directory, "", vocabSize);
  return readGguf(modelPath, vocabSize);
}

} // namespace heddle
