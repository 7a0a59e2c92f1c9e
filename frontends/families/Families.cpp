// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/families/Families.h"

using namespace heddle;

llvm::ArrayRef<Family> heddle::families() {
  static const Family table[] = {
      {"deepseek_v2", buildDeepSeek},
      {"deepseek_v3", buildDeepSeek},
      {"gemma2", buildGemma},
      {"gemma3_text", buildGemma},
      {"gpt2", buildGpt2},
      {"llama", buildLlama},
      {"mistral", buildLlama},
      {"mixtral", buildLlama},
      {"phi3", buildPhi3},
      {"qwen2", buildLlama},
      {"qwen3", buildLlama},
      {"qwen3_moe", buildLlama},
  };
  return table;
}
