// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adapters that are tokens before a sequence's own (prompt tuning, p-tuning, prefix tuning). Every token of a run has a number: 0 without an
// adapter, from 1 that of its adapter, and behind those each virtual token has one of its own. Tables say by the number what a virtual token has
// in place of what is computed: x becomes x * keep[number] + own[number], with 1 and 0 for all others, of which no bit changes.
#ifndef HEDDLE_FRONTENDS_PEFT_VIRTUALTOKENS_H
#define HEDDLE_FRONTENDS_PEFT_VIRTUALTOKENS_H

#include "frontends/peft/MergedFile.h"
#include "frontends/peft/ModelTensors.h"

namespace heddle {

// What the tables are called: (numbers, hidden_size) of embeddings, (numbers, num_kv_heads * head_dim) of keys and values, of each layer by its
// index, which share what they keep.
inline constexpr const char *virtualEmbeddings = "virtual.embeddings",
                            *virtualEmbeddingsKeep = "virtual.embeddings_keep";
inline constexpr const char *virtualKeys = "virtual.keys.", *virtualValues = "virtual.values.",
                            *virtualKeep = "virtual.keep";

class VirtualTokens {
public:
  // Compares an adapter with the base; of modules it adds nothing.
  Status add(const Adapter &adapter, double scale, const Model &model, const ModelTensors &tensors);
  // Of each adapter, in the order in which they were added.
  const std::vector<int64_t> &counts() const { return perAdapter; }
  int64_t count() const { return total; }
  // Hands the tables of all to `write`, rows by number; none where no adapter has virtual tokens.
  using WriteTable =
      std::function<Status(const std::string &name, int64_t rows, int64_t width, const MergedFile::FillRow &fill)>;
  Status write(const Model &model, const WriteTable &write) const;

private:
  struct Prompt {
    int64_t first, count; // among all virtual tokens
    bool isPrefix;
    std::vector<float> numbers; // (count, width) or (count, layers, 2, num_kv_heads * head_dim)
  };
  const Prompt *find(int64_t token) const;

  std::vector<Prompt> prompts;
  std::vector<int64_t> perAdapter;
  int64_t total = 0;
};

} // namespace heddle

#endif
