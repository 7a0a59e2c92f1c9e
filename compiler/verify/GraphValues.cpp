// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/GraphValues.h"

#include "compiler/interpreter/TensorBytes.h"
#include "compiler/verify/NumericCheck.h"
#include "frontends/huggingface/Safetensors.h"

using namespace mlir;

namespace heddle {

// Random integers are below it: they may be indices, also of tables of two rows (token_type_ids).
static constexpr int64_t maxIndex = 2;

static NamedTensor describe(DictionaryAttr attributes) {
  auto name = attributes ? attributes.getAs<StringAttr>("heddle.name") : StringAttr();
  return {name ? name.str() : "", {}, attributes && attributes.get("heddle.unsigned")};
}

static Expected<Tensor> readInput(const Checkpoint &file, const std::string &name, RankedTensorType type) {
  const std::string &path = file.files.front()->path();
  const TensorInfo *stored = file.find(name);
  if (!stored)
    return invalidInput(path + ": there is no tensor '" + name + "'");
  bool fits = int64_t(stored->shape.size()) == type.getRank();
  for (int64_t axis = 0; fits && axis < type.getRank(); ++axis)
    fits = type.isDynamicDim(axis) || stored->shape[axis] == type.getDimSize(axis);
  const TensorTypeInfo &info = tensorTypeInfo(stored->type);
  if (!fits || int64_t(info.blockBytes) != storedBytes(type.getElementType())) {
    std::string text;
    llvm::raw_string_ostream(text) << path << ": tensor '" << name << "' does not fit " << type;
    return invalidInput(text);
  }
  return tensorFromBytes(type.getElementType(), llvm::to_vector_of<int64_t>(stored->shape), file.data(*stored));
}

Expected<std::vector<NamedTensor>> graphInputs(func::FuncOp graph, const std::string &path, uint64_t seed,
                                               int64_t dynamicSize) {
  Checkpoint file;
  if (!path.empty()) {
    Expected<SharedFile> stored = openShared(path);
    if (!stored)
      return stored.status();
    HEDDLE_RETURN_IF_ERROR(readSafetensors(*stored, file));
  }
  std::vector<NamedTensor> inputs;
  for (auto [index, argument] : llvm::enumerate(graph.getArgumentTypes())) {
    NamedTensor input = describe(graph.getArgAttrDict(index));
    auto type = cast<RankedTensorType>(argument);
    if (!path.empty()) {
      Expected<Tensor> values = readInput(file, input.name, type);
      if (!values)
        return values.status();
      input.values = std::move(*values);
    } else {
      SmallVector<int64_t> shape;
      for (int64_t size : type.getShape())
        shape.push_back(ShapedType::isDynamic(size) ? dynamicSize : size);
      input.values = randomTensor(type.getElementType(), shape, seed + index, maxIndex);
      // What stands for an input of which few numbers mean anything.
      if (auto sample = graph.getArgAttrOfType<IntegerAttr>(index, "heddle.sample"))
        llvm::fill(input.values.integers, sample.getInt());
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::vector<NamedTensor> graphOutputs(func::FuncOp graph, ArrayRef<Tensor> values) {
  std::vector<NamedTensor> outputs;
  for (auto [index, tensor] : llvm::enumerate(values)) {
    outputs.push_back(describe(graph.getResultAttrDict(index)));
    outputs.back().values = tensor;
  }
  return outputs;
}

} // namespace heddle
