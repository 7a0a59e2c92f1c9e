// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes weights that a checkpoint holds in parts as rows of numbers or blocks, and puts them into it instead of their parts. They lie in a
// file without a name, which is filled run by run: memory grows with neither the model nor its largest weight.
#ifndef HEDDLE_FRONTENDS_WEIGHTRESTORER_H
#define HEDDLE_FRONTENDS_WEIGHTRESTORER_H

#include "frontends/ModelConfig.h"
#include "frontends/UnnamedFile.h"

namespace heddle {

// A matrix (rows, columns) as unsigned codes: w = scale * (code - zero), where a group of columns of each row has a scale and a zero.
struct CodedWeight {
  int64_t rows = 0, columns = 0;
  int bits = 4; // of a code, 4 or 8
  int64_t groups = 1;
  std::vector<int32_t> groupOf; // (columns)
  std::vector<float> scales;    // (rows, groups)
  std::vector<float> zeros;     // (rows, groups); empty: all are 2^(bits - 1)
  // Codes of rows [first, last), (last - first, columns).
  std::function<void(int64_t first, int64_t last, uint8_t *out)> codes;

  // Column / `size`, for all columns; -1: one group has all.
  void groupColumns(int64_t size);
};

// A tensor of the checkpoint, checked.
struct WeightPart {
  const uint8_t *data = nullptr;
  TensorType type = TensorType::F32;
  std::vector<int64_t> shape;
  // All its numbers.
  std::vector<float> numbers() const;
};

class WeightRestorer {
public:
  explicit WeightRestorer(Model &model);

  // What stands before `ending` in the names of all tensors that end so.
  std::vector<std::string> namesBefore(const std::string &ending) const;
  bool has(const std::string &name) const { return model.checkpoint.find(name); }
  // The tensor of that name, one of `types`. A size of -1 in `shape` is any positive one; null: any shape.
  Expected<WeightPart> part(const std::string &name, const std::vector<TensorType> &types,
                            const std::vector<int64_t> *shape = nullptr) const;
  Expected<WeightPart> part(const std::string &name, const std::vector<TensorType> &types,
                            const std::vector<int64_t> &shape) const {
    return part(name, types, &shape);
  }
  // "FILE: tensor 'NAME' WHAT"
  Status refused(const std::string &name, const std::string &what) const;

  // As blocks where 32 columns have one scale, else as numbers of f16, or bf16 where that is too small.
  Status addCodes(const std::string &name, const CodedWeight &weight);
  // As f16 or bf16: `fill` gives a row.
  Status addNumbers(const std::string &name, TensorType type, int64_t rows, int64_t columns,
                    const std::function<void(int64_t row, float *out)> &fill);
  // Gives rows [first, last) as numbers, and in `out` as the weight's type has them, if it returns true; else they are rounded to it.
  using FillBoth = std::function<bool(int64_t first, int64_t last, float *numbers, uint8_t *out)>;
  Status addRows(const std::string &name, TensorType type, int64_t rows, int64_t columns, const FillBoth &fill);
  // As blocks of `type`, which are those of the checkpoint: nothing is rounded.
  Status addBlocks(const std::string &name, TensorType type, int64_t rows, int64_t columns,
                   const UnnamedFile::FillRows &fill);
  // Takes a part out of the checkpoint, once its weight is there.
  void drop(const std::string &name) { model.checkpoint.tensors.erase(name); }
  // Maps what was added; nothing is added any more.
  Status finish();

private:
  Model &model;
  UnnamedFile file;
};

} // namespace heddle

#endif
