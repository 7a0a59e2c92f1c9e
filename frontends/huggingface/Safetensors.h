// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// safetensors: u64 header length, a JSON header, data. One file, or shards that an index names.
//
//   header   {"NAME": {"dtype": "F32", "shape": [out, in], "data_offsets": [begin, end]}, …, "__metadata__": {string: string}}
//
// The rules are the reference implementation's (github.com/huggingface/safetensors): the header has at most 100 MB and starts
// with '{', no name occurs twice, and the ranges cover the data exactly: no hole, no overlap, nothing behind the last.
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_SAFETENSORS_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_SAFETENSORS_H

#include "frontends/Checkpoint.h"

namespace heddle {

// Tensors of one model at most: bounds the table of a header that lists millions of empty tensors.
constexpr size_t maxSafetensorsTensors = 1 << 18;

// Adds the file's tensors to `checkpoint`. A name that is there already is an error (a tensor in two shards).
Status readSafetensors(const std::string &path, Checkpoint &checkpoint);

// Reads model.safetensors in `directory`, or the shards that model.safetensors.index.json names there. Shards must be plain file
// names; they may be symbolic links, as in Hugging Face's cache.
Expected<Checkpoint> readSafetensorsDirectory(const std::string &directory);

} // namespace heddle

#endif
