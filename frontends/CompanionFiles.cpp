// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/CompanionFiles.h"

#include <sys/stat.h>

namespace heddle {

std::vector<std::string> companionFiles(const std::string &folder) {
  std::vector<std::string> found;
  struct stat status;
  for (const char *name :
       {"added_tokens.json", "chat_template.jinja", "chat_template.json", "config.json", "generation_config.json",
        "merges.txt", "model.safetensors.index.json", "sentencepiece.bpe.model", "special_tokens_map.json",
        "spiece.model", "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt"})
    if (stat((folder.empty() ? name : folder + "/" + name).c_str(), &status) == 0)
      found.push_back(name);
  return found;
}

} // namespace heddle
