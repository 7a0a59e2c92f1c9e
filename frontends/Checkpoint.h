// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tensors of a model file, wherever they lie: GGUF, safetensors, one file or many. Files are mapped, nothing is
// copied.
#ifndef HEDDLE_FRONTENDS_CHECKPOINT_H
#define HEDDLE_FRONTENDS_CHECKPOINT_H

#include "bytes/Expected.h"
#include "bytes/MappedFile.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// How the numbers of a tensor are stored. Block types are ggml's; values per block and bytes per block in
// tensorTypeInfo.
enum class TensorType : uint8_t {
  F32,
  F16,
  BF16,
  F64,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  Bool,
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  Q8_0,
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K,
  IQ4_NL,
  IQ4_XS,
  MXFP4,
  IQ1_S,
  IQ1_M,
  IQ2_XXS,
  IQ2_XS,
  IQ2_S,
  IQ3_XXS,
  IQ3_S,
  TQ1_0,
  TQ2_0,
  Q1_0,
  NVFP4,    // ggml's, which the readers turn into what follows
  E2M1_F16, // of no file: 16 numbers of E2M1 share a scale of f16 (frontends/SmallFloats.h)
};

struct TensorTypeInfo {
  const char *name;     // lower case, as in #heddle.quant<q4_0>
  uint32_t blockValues; // 1 for plain types
  uint32_t blockBytes;
};
const TensorTypeInfo &tensorTypeInfo(TensorType type);
// The type that TensorTypeInfo::name names.
std::optional<TensorType> tensorTypeNamed(std::string_view name);

// Values [0, count) of a row whose blocks start at `data`, as f32. `count` is a multiple of blockValues.
void dequantize(TensorType type, const uint8_t *data, size_t count, float *out);
// `rows` of `width` values each, dense in `out`; `stride` values, of a type without blocks, from one to the next, 0: `width`.
void dequantizeRows(TensorType type, const uint8_t *data, size_t rows, size_t width, size_t stride, float *out);

// How a stored weight of q, k and v in one, or of others, has its rows.
enum class RowOrder : uint8_t {
  ByPart,   // all queries, all keys, all values
  ByKvHead, // one KV head after the other, each with its queries, its key and its value
  ByShard,  // a quarter of all after the other, each with its queries, its values and its keys
  ByGate,   // one head after the other, each with its query and what gates it
  ByStateHead, // one key head of linear attention after the other, each with its query, its key, its values and what gates these
  ByStateTerm, // the same of two numbers of each value head
  ByStatePart  // the same as ByStateHead without what gates values
};

struct TensorInfo {
  TensorType type;
  std::vector<int64_t> shape; // outermost first, as PyTorch prints it: (out_features, in_features) for a linear weight
  uint32_t file = 0;          // index into Checkpoint::files
  uint64_t offset = 0;        // bytes from the start of that file
  uint64_t bytes = 0;
  bool transposed = false; // stored as (in_features, out_features), though `shape` says (out, in): GPT-2's Conv1D
  RowOrder rowOrder = RowOrder::ByPart;
  std::string storedAs{}; // its name in the file, where the readers gave it another
};

// A mapped file that lasts as long as someone holds it.
Expected<std::shared_ptr<MappedFile>> openShared(const std::string &path);
// The same of an open descriptor, which it closes; `path` is for messages.
Expected<std::shared_ptr<MappedFile>> mapShared(int descriptor, const std::string &path);

struct Checkpoint {
  std::vector<std::shared_ptr<MappedFile>> files;
  std::map<std::string, TensorInfo, std::less<>> tensors; // by the file's own name

  const TensorInfo *find(std::string_view name) const;
  const uint8_t *data(const TensorInfo &tensor) const { return files[tensor.file]->data() + tensor.offset; }
};

} // namespace heddle

#endif
