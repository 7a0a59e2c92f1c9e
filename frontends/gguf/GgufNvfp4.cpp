// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NVFP4 in GGUF files: blocks of 64 with four scales of E4M3, and where the matrix has one of its own, beside NAME.weight a tensor NAME.scale, with a number
// for each expert of a stack. They become blocks of 16 whose scale is the product, rounded to f16; without the second it is what the file says.
// NAME.input_scale is for those who round activations.
#include "frontends/SmallFloats.h"
#include "frontends/WeightRestorer.h"
#include "frontends/gguf/GgufModel.h"

#include <algorithm>

namespace heddle {

static constexpr std::string_view weightEnding = ".weight", scaleEnding = ".scale", inputEnding = ".input_scale";

static std::string beside(std::string_view weight, std::string_view ending) {
  return std::string(weight.substr(0, weight.size() - weightEnding.size())).append(ending);
}

// What multiplies all scales of `tensor`, a part of the file's tensor `own` or all of it.
static Expected<float> factorOf(const Checkpoint &file, const std::string &own, const TensorInfo &tensor) {
  std::string name = beside(own, scaleEnding);
  const TensorInfo &whole = *file.find(own), *scales = file.find(name);
  if (!scales)
    return 1.0f;
  auto refused = [&](const std::string &what) {
    return errorIn(file.files[scales->file]->path(), "tensor '" + printable(name) + "' " + what).ofTensor(name);
  };
  int64_t parts = whole.shape.size() == 3 ? whole.shape[0] : 1;
  if (scales->type != TensorType::F32 || scales->shape != std::vector<int64_t>{parts})
    return refused("is " + std::string(tensorTypeInfo(scales->type).name) + " " + shapeText(scales->shape) +
                   ", expected f32 " + shapeText({parts}));
  uint64_t part = (tensor.offset - whole.offset) / (whole.bytes / static_cast<uint64_t>(parts));
  float factor;
  dequantize(TensorType::F32, file.data(*scales) + part * sizeof factor, 1, &factor);
  constexpr float largestE4M3 = 448;
  if (!(factor > 0 && factor * largestE4M3 <= largestE2M1Scale))
    return refused("has the number " + std::to_string(factor) + ", expected a positive one of at most " +
                   std::to_string(largestE2M1Scale / largestE4M3));
  return factor;
}

static Status convert(WeightRestorer &weights, const Checkpoint &file, const std::string &name, const std::string &own,
                      TensorInfo &tensor) {
  constexpr int64_t blockValues = 64, blockBytes = 36, groups = 4, groupBytes = 10;
  Expected<float> factor = factorOf(file, own, tensor);
  if (!factor)
    return factor.status();
  const TensorInfo stored = tensor;
  int64_t columns = stored.shape.back(), rows = 1;
  for (size_t i = 0; i + 1 < stored.shape.size(); ++i)
    rows *= stored.shape[i];
  const uint8_t *data = file.data(stored);
  auto fill = [&](int64_t first, int64_t last, float *numbers, uint8_t *out) {
    auto count = static_cast<size_t>((last - first) * columns);
    const uint8_t *block = data + first * columns / blockValues * blockBytes;
    dequantize(TensorType::NVFP4, block, count, numbers);
    std::for_each(numbers, numbers + count, [&](float &number) { number *= *factor; });
    for (int64_t left = (last - first) * columns / blockValues; left; --left, block += blockBytes)
      for (int64_t group = 0; group < groups; ++group, out += groupBytes) {
        putE2M1Scale(e4m3Magnitude(block[group]) * *factor, out);
        std::memcpy(out + 2, block + groups + 8 * group, 8);
      }
    return true;
  };
  HEDDLE_RETURN_IF_ERROR(weights.addRows(name, TensorType::E2M1_F16, rows, columns, fill));
  tensor.shape = stored.shape;
  tensor.rowOrder = stored.rowOrder;
  tensor.storedAs = stored.storedAs;
  return Status();
}

Status convertNvfp4(const GgufFile &file, Model &model) {
  const Checkpoint &stored = file.tensors();
  // Others are refused as all that is no weight.
  auto isConverted = [](std::string_view name, const TensorInfo &tensor) {
    return tensor.type == TensorType::NVFP4 && tensor.bytes > 0 && tensor.shape.size() > 1 &&
           name.size() > weightEnding.size() && name.substr(name.size() - weightEnding.size()) == weightEnding;
  };
  WeightRestorer weights(model);
  for (auto &[name, tensor] : model.checkpoint.tensors) {
    const std::string own = tensor.storedAs.empty() ? name : tensor.storedAs; // its name in the file
    if (isConverted(own, tensor))
      HEDDLE_RETURN_IF_ERROR(convert(weights, stored, name, own, tensor));
  }
  if (model.restored.empty())
    return Status();
  model.quantMethod = tensorTypeInfo(TensorType::NVFP4).name;
  for (const auto &[name, tensor] : stored.tensors)
    for (std::string_view ending : {scaleEnding, inputEnding})
      if (isConverted(name, tensor))
        weights.drop(beside(name, ending));
  return weights.finish();
}

} // namespace heddle
