// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --io of a function over named tensors (a graph or an encoder), and --bench of a graph.
#include "bytes/JsonSchema.h"
#include "bytes/Safetensors.h"
#include "bytes/WholeFile.h"
#include "runtime/cli/Bandwidth.h"
#include "runtime/cli/Cli.h"
#include "runtime/session/Reserved.h"
#include "runtime/session/Session.h"
#include "runtime/session/TensorFunction.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heddle {
namespace {

using Names = std::vector<std::string>;

std::string listOf(const Names &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "it has none" : text;
}

// Which function runs: the first, or the one that --entry names.
Status chooseEntry(const OpenedModel &program, size_t &outIndex) {
  const std::string &name = program.options.entry;
  Names names = TensorFunction::namesOf(program.metadata());
  outIndex = name.empty() ? 0 : size_t(std::find(names.begin(), names.end(), name) - names.begin());
  return outIndex < names.size()
             ? Status()
             : invalidInput("--entry: '" + name + "' is no entry of this model (" + listOf(names) + ")");
}

// Which outputs are written, in the order of the command line.
Status chooseOutputs(const TensorFunction &function, const Names &wanted, std::vector<size_t> &outIndices) {
  Names names;
  for (const TensorDeclaration &output : function.outputs())
    names.push_back(output.name);
  for (const std::string &name : wanted.empty() ? names : wanted) {
    size_t index = size_t(std::find(names.begin(), names.end(), name) - names.begin());
    if (index == names.size())
      return invalidInput("--outputs: '" + name + "' is no output of this model (" + listOf(names) + ")");
    if (std::find(outIndices.begin(), outIndices.end(), index) == outIndices.end())
      outIndices.push_back(index);
  }
  return Status();
}

// xorshift64*: the same inputs in every run.
class RandomBits {
public:
  uint64_t next() {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 2685821657736338717ull;
  }

private:
  uint64_t state = 0x9e3779b97f4a7c15ull;
};

// Inputs of a --bench without a file: floats in [-1, 1), integers and booleans 0 or 1, so that ids and indices are valid.
class RandomInputs {
public:
  Status create(const package::Graph &graph, const std::vector<std::pair<std::string, int64_t>> &dims) {
    std::vector<bool> used(dims.size());
    for (const package::GraphTensor *tensor : *graph.inputs()) {
      GraphInput input;
      input.type = tensor->type();
      for (unsigned axis = 0; tensor->dims() && axis < tensor->dims()->size(); ++axis) {
        int64_t size = tensor->dims()->Get(axis);
        for (size_t i = 0; size < 0 && tensor->dim_names() && i < dims.size(); ++i)
          if (tensor->dim_names()->Get(axis)->str() == dims[i].first) {
            size = dims[i].second;
            used[i] = true;
          }
        input.shape.push_back(size < 0 ? 1 : size);
      }
      HEDDLE_RETURN_IF_ERROR(fill(*tensor, input));
      inputs.push_back(std::move(input));
    }
    for (size_t i = 0; i < dims.size(); ++i)
      if (!used[i])
        return invalidInput("--dims: '" + dims[i].first + "' names no dimension of an input");
    return Status();
  }
  std::vector<GraphInput> inputs;

private:
  Status fill(const package::GraphTensor &tensor, GraphInput &input) {
    uint64_t size = 0;
    if (!sizeInBytes(input.type, input.shape, size))
      return invalidInput("--dims: input '" + tensor.name()->str() + "' of shape " + shapeText(input.shape) +
                          " is too large");
    buffers.emplace_back(new Reserved);
    HEDDLE_RETURN_IF_ERROR(buffers.back()->reserve(size, tensor.name()->c_str()));
    uint8_t *data = buffers.back()->data();
    uint64_t width = elementBytes(input.type), count = size / width;
    for (uint64_t i = 0; i < count; ++i)
      writeElement(input.type, data + i * width);
    input.data = data;
    return Status();
  }

  void writeElement(package::DataType type, uint8_t *out) {
    uint64_t bits = random.next() >> 32;
    double value = double(bits) / 2147483648.0 - 1;
    float single = float(value);
    uint32_t word;
    memcpy(&word, &single, 4);
    uint16_t half = uint16_t(word >> 16); // bf16: the upper half of an f32
    switch (type) {
    case package::DataType::F64:
      memcpy(out, &value, 8);
      return;
    case package::DataType::F32:
      memcpy(out, &single, 4);
      return;
    case package::DataType::BF16:
      memcpy(out, &half, 2);
      return;
    case package::DataType::F16:
      half = uint16_t((bits & 1) << 15 | 0x3800 | (bits >> 1 & 0x3ff)); // ±[0.5, 1)
      memcpy(out, &half, 2);
      return;
    default:
      out[0] = uint8_t(bits & 1); // little-endian; the rest is zero
    }
  }

  RandomBits random;
  std::vector<std::unique_ptr<Reserved>> buffers;
};

} // namespace

Status runFunctionIo(OpenedModel &program) {
  const CliOptions &options = program.options;
  size_t entry = 0;
  HEDDLE_RETURN_IF_ERROR(chooseEntry(program, entry));
  std::unique_ptr<TensorFunction> function;
  HEDDLE_RETURN_IF_ERROR(checkOutputFile(options.ioOutput));
  HEDDLE_RETURN_IF_ERROR(TensorFunction::create(*program.package, entry, options.threads, /*pool=*/nullptr, function));
  function->setProgress(promptProgress());
  std::vector<size_t> wanted;
  HEDDLE_RETURN_IF_ERROR(chooseOutputs(*function, options.outputs, wanted));
  SafetensorsFile file;
  HEDDLE_RETURN_IF_ERROR(file.open(options.ioInput));
  std::vector<GraphOutput> outputs;
  HEDDLE_RETURN_IF_ERROR(function->call(file.tensors(), options.ioInput, outputs));
  std::vector<TensorToWrite> written;
  for (size_t index : wanted) {
    const TensorDeclaration &declared = function->outputs()[index];
    const GraphOutput &output = outputs[index];
    written.push_back({declared.name, dataTypeName(declared.type), output.shape, output.data, output.size});
  }
  return writeSafetensors(options.ioOutput, written);
}

Status runGraphBench(OpenedModel &program) {
  const CliOptions &options = program.options;
  size_t entry = 0;
  HEDDLE_RETURN_IF_ERROR(chooseEntry(program, entry));
  const package::Graph &graph = *program.metadata().graphs()->Get(unsigned(entry));
  SafetensorsFile file;
  RandomInputs random;
  std::vector<GraphInput> inputs;
  if (!options.benchInput.empty()) {
    HEDDLE_RETURN_IF_ERROR(file.open(options.benchInput));
    HEDDLE_RETURN_IF_ERROR(orderInputs(graph, file.tensors(), options.benchInput, inputs));
  } else {
    HEDDLE_RETURN_IF_ERROR(random.create(graph, options.dims));
    inputs = random.inputs;
  }
  GraphRunner runner(*program.package, unsigned(entry), options.threads);
  double best = INFINITY;
  for (int64_t round = 0; round < options.benchRounds; ++round) {
    if (wasInterrupted())
      return Status::failure("interrupted");
    std::vector<GraphOutput> outputs;
    double start = secondsNow();
    HEDDLE_RETURN_IF_ERROR(runner.run(inputs, options.benchInput.empty() ? "--bench" : options.benchInput, outputs));
    best = std::min(best, secondsNow() - start);
  }
  if (options.json)
    return writeOut(format("{\"schema\": \"%s\", \"seconds\": %.9g, \"rounds\": %lld, \"peak_bytes\": %llu}\n",
                           schema::time, best, (long long)options.benchRounds, (unsigned long long)runner.peakBytes()));
  return writeOut(format("best of %lld runs: %.3f ms, %.1f MiB of tensors at most\n", (long long)options.benchRounds,
                         best * 1e3, double(runner.peakBytes()) / (1 << 20)));
}

} // namespace heddle
