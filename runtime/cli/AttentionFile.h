// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What --attention-map writes: a page that needs no other file, or tensors.
#ifndef HEDDLE_RUNTIME_CLI_ATTENTIONFILE_H
#define HEDDLE_RUNTIME_CLI_ATTENTIONFILE_H

#include "runtime/cli/Cli.h"
#include "runtime/session/AttentionRecorder.h"

namespace heddle {

struct AttentionText {
  std::vector<int32_t> sources;      // of an encoder-decoder: what its encoder reads
  std::vector<int32_t> tokens;       // of what the model attends in
  size_t answer = std::string::npos; // the first of them that the model has made; npos: none
};

// That a file of this name can be written, and what kind it is: ".safetensors", else ".html".
Status checkAttentionFile(const std::string &path);

// Refuses what a browser, or the machine's memory, would not hold: before anything is computed.
Status checkAttentionSize(const OpenedModel &program, const std::string &path, size_t tokens, size_t sources);

// A tensor (1, num_heads, queries, keys) f32 for each layer, named as transformers names its outputs, attentions.0 or cross_attentions.0, and the
// ids of the tokens; or the page.
Status writeAttention(const OpenedModel &program, const std::string &path, const AttentionText &text,
                      const std::vector<AttentionMap> &maps);

} // namespace heddle

#endif
