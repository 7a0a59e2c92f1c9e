// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An adapter that PyPI's peft has written: adapter_config.json and adapter_model.safetensors in a folder.
#ifndef HEDDLE_FRONTENDS_PEFT_ADAPTER_H
#define HEDDLE_FRONTENDS_PEFT_ADAPTER_H

#include "frontends/Checkpoint.h"
#include "frontends/peft/AdapterConfig.h"

#include <map>

namespace heddle {

// What an adapter says of one module of its base; null where it says nothing of the kind. W (out, in) becomes W + factor * B A, or its rows or
// columns are scaled.
struct AdaptedModule {
  // A (r, in) and B (out, r); of an embedding A (r, rows) and B (width, r), whose transposed product is added.
  const TensorInfo *a = nullptr, *b = nullptr;
  bool isEmbedding = false;
  const TensorInfo *magnitude = nullptr; // (out): the lengths of the sum's rows
  // (out, 1): what the product and its bias are multiplied by; (1, in): what its input is.
  const TensorInfo *scales = nullptr;
  // What stands in the base's place: stored with the adapter though training left it alone, or trained whole.
  const TensorInfo *base = nullptr, *weight = nullptr, *bias = nullptr;
};

struct Adapter {
  std::string file; // adapter_model.safetensors, for messages
  AdapterConfig config;
  Checkpoint tensors;
  std::map<std::string, AdaptedModule> modules; // by Hugging Face's name, without what peft puts before it
  // Of virtual tokens: (tokens, width) embeddings, or (tokens, layers, 2, num_kv_heads, head_dim) keys and values, all but the first in one dimension.
  const TensorInfo *prompt = nullptr;
};

// Every tensor of the file is one of a module, or refused.
Expected<Adapter> readAdapter(ModelFiles &files);

} // namespace heddle

#endif
