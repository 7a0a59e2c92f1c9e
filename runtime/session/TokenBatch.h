// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Named tensors of token ids as sequences: input_ids, or decoder_input_ids, with what may stand beside them.
#ifndef HEDDLE_RUNTIME_SESSION_TOKENBATCH_H
#define HEDDLE_RUNTIME_SESSION_TOKENBATCH_H

#include "bytes/Safetensors.h"
#include "runtime/model/PackageFile.h"
#include "runtime/session/Encoder.h"

#include <string>
#include <vector>

namespace heddle {

// One row of a batch without its masked tokens.
struct TokenRow {
  std::vector<int32_t> ids;
  // (ids) where the file has them, else empty; positions also where masked tokens lie between others.
  std::vector<int32_t> positions, tokenTypes, globals;
  std::vector<int64_t> columns; // (ids): where each token stands
  int32_t adapter = 0;          // of a decoder, as a feed has it
  std::vector<float> patches;   // of an image or of sound: (ids, inputRowWidth())
};

// What an encoder takes: of texts (batch, length) each, of which only the first must be there.
std::vector<const char *> encoderInputs(const package::Encoder &encoder);

// What --io takes of a model: the same, and of an encoder-decoder decoder_input_ids.
std::vector<const char *> inputNames(const package::Package &metadata);

// What of a batch an encoder-decoder reads: its source, or what its decoder begins with.
enum class BatchSide : uint8_t { Source, Decoder };

// input_ids, attention_mask, position_ids and, of an encoder that has them, token_type_ids and global_attention_mask: (batch, length) each; or pixel_values, whose
// images are sequences of special tokens and patches; or input_features, whose frames make a token by twos. Of an encoder-decoder input_ids and attention_mask, or decoder_input_ids.
struct TokenBatch {
  // `where` begins the message of every error.
  Status read(const std::vector<StoredTensor> &tensors, const std::string &where, const package::Package &metadata,
              BatchSide side = BatchSide::Source);
  // What an encoder needs besides: without position_ids a token's position is its column, or its number among the ids that are no padding, as
  // in the family's Hugging Face forward; without token_type_ids its type is 0; without global_attention_mask the package says which
  // tokens are global.
  Status completeRows(const std::string &where, const package::Package &metadata);
  std::vector<EncoderInput> encoderInputs() const; // of complete rows
  // Adds a row of an image: pixels (channels, size, size).
  void addImage(const float *pixels, const package::Encoder &encoder);
  // Adds a row of sound: features (mel_bins, 2 * context).
  void addSound(const float *features, const package::Encoder &encoder);

  int64_t batch = 0, length = 0;
  std::vector<TokenRow> rows; // (batch)

private:
  // The input that stands for ids, (batch) times `shape`; `add` adds each.
  Status readNumbers(const std::string &where, const std::vector<StoredTensor> &tensors,
                     const std::vector<int64_t> &shape, const package::Package &metadata,
                     void (TokenBatch::*add)(const float *, const package::Encoder &));
  Status checkSeparators(const std::string &where, size_t index, int32_t separator) const;
  Status readAdapters(const std::vector<StoredTensor> &tensors, const std::string &where,
                      const package::Package &metadata);
  Status keepGaps(const std::string &where, const package::Package &metadata, const package::Encoder *encoder);
  Status readShape(const std::string &where, const std::vector<StoredTensor> &tensors,
                   const package::Package &metadata);
  // Input `name` of shape (batch, length), or (1, length) where that repeats; nothing where the file has none.
  Status readMatrix(const std::string &where, const std::vector<StoredTensor> &tensors, const char *name,
                    std::vector<int64_t> &values) const;
  const char *idsName = "input_ids";
};

} // namespace heddle

#endif
