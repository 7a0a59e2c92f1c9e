// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/tokenizer/TokenizerReader.h"

#include "frontends/Size.h"
#include "frontends/tokenizer/GgufTokenizer.h"

#include <sys/stat.h>

namespace heddle {

static Expected<std::string> readGguf(const std::string &path) {
  auto file = GgufFile::open(path);
  if (!file)
    return file.takeError();
  TokenizerDraft draft;
  if (auto status = readGgufTokenizer(*file, draft); !status)
    return status.takeError();
  if (draft.model == package::TokenizerModel::None)
    return std::string();
  return writeTokenizer(draft);
}

Expected<std::string> readTokenizer(const std::string &modelPath) {
  struct stat info;
  if (stat(modelPath.c_str(), &info) != 0)
    return errorIn(modelPath, "no such file or directory");
  return readGguf(modelPath);
}

} // namespace heddle
