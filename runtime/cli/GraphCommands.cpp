// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --io of a function over named tensors (a graph or an encoder), and --bench of a graph.
#include "bytes/JsonSchema.h"
#include "bytes/Safetensors.h"
#include "bytes/WholeFile.h"
#include "runtime/cli/Bandwidth.h"
#include "runtime/cli/Cli.h"
#include "runtime/cli/Profile.h"
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

// The function that --entry names, else the first.
Status chooseEntry(const OpenedModel &program, size_t &outIndex) {
  const std::string &name = program.options.entry;
  Names names = TensorFunction::namesOf(program.metadata());
  outIndex = name.empty() ? 0 : size_t(std::find(names.begin(), names.end(), name) - names.begin());
  return outIndex < names.size()
             ? Status()
             : invalidInput("--entry: '" + name + "' is no entry of this model (" + listOf(names) + ")");
}

// The functions that --io runs: the one that --entry names, or each whose inputs are in the file or come from one before it.
class FunctionChain {
public:
  // `only`: an index of TensorFunction::namesOf(), -1: all.
  Status create(const OpenedModel &program, int64_t only);
  // Outputs are valid as long as the chain.
  Status run(const std::vector<StoredTensor> &given, const std::string &where);
  // Whether each is an output of a function, where some are `wanted`.
  Status checkNames(const Names &wanted) const;
  // Those that are written, in the order of the command line.
  Status choose(const Names &wanted, std::vector<TensorToWrite> &outTensors) const;

private:
  struct Output {
    const TensorDeclaration *declared;
    GraphOutput tensor;
  };
  Status runOne(TensorFunction &function, const std::vector<StoredTensor> &inputs, const std::string &where);
  Status refuseUnused(const std::vector<StoredTensor> &given, const std::string &where) const;

  std::vector<std::unique_ptr<TensorFunction>> functions;
  std::vector<StoredTensor> known; // what was given, then what was computed
  std::vector<bool> isUsed;        // (given)
  std::vector<Output> outputs;
};

Status FunctionChain::create(const OpenedModel &program, int64_t only) {
  size_t count = TensorFunction::namesOf(program.metadata()).size();
  for (size_t index = 0; index < count; ++index) {
    if (only >= 0 && index != size_t(only))
      continue;
    functions.emplace_back();
    HEDDLE_RETURN_IF_ERROR(
        TensorFunction::create(*program.package, index, program.options.threads, /*pool=*/nullptr, functions.back()));
    functions.back()->setProgress(promptProgress());
  }
  return Status();
}

const StoredTensor *find(const std::vector<StoredTensor> &tensors, const std::string &name) {
  auto found = std::find_if(tensors.begin(), tensors.end(), [&](const StoredTensor &t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

Status FunctionChain::runOne(TensorFunction &function, const std::vector<StoredTensor> &inputs,
                             const std::string &where) {
  std::vector<GraphOutput> computed;
  HEDDLE_RETURN_IF_ERROR(function.call(inputs, where, computed));
  for (size_t i = 0; i < computed.size(); ++i) {
    const TensorDeclaration &declared = function.outputs()[i];
    if (functions.size() > 1 && find(known, declared.name))
      return invalidInput(where + ": tensor '" + declared.name +
                          "' is computed from others that are there: expected one");
    known.push_back({declared.name, dataTypeName(declared.type), computed[i].shape,
                     static_cast<const uint8_t *>(computed[i].data), computed[i].size});
    outputs.push_back({&declared, std::move(computed[i])});
  }
  return Status();
}

Status FunctionChain::run(const std::vector<StoredTensor> &given, const std::string &where) {
  if (functions.size() == 1)
    return runOne(*functions.front(), given, where);
  known = given;
  isUsed.assign(given.size(), false);
  for (const auto &function : functions) {
    const std::vector<TensorDeclaration> &inputs = function->inputs();
    if (!std::all_of(inputs.begin(), inputs.end(),
                     [&](const TensorDeclaration &input) { return input.isOptional || find(known, input.name); }))
      continue;
    std::vector<StoredTensor> taken;
    for (const TensorDeclaration &input : inputs)
      if (const StoredTensor *tensor = find(known, input.name)) {
        size_t index = size_t(tensor - known.data());
        if (index < isUsed.size())
          isUsed[index] = true;
        taken.push_back(*tensor);
      }
    HEDDLE_RETURN_IF_ERROR(runOne(*function, taken, where));
  }
  return refuseUnused(given, where);
}

// A tensor that no function took: none has it, or the one that has it lacks another.
Status FunctionChain::refuseUnused(const std::vector<StoredTensor> &given, const std::string &where) const {
  Names names;
  for (const auto &function : functions)
    for (const TensorDeclaration &input : function->inputs())
      names.push_back(input.name);
  for (size_t i = 0; i < given.size(); ++i) {
    if (isUsed[i])
      continue;
    for (const auto &function : functions) {
      const std::vector<TensorDeclaration> &inputs = function->inputs();
      auto hasName = [&](const TensorDeclaration &input) { return input.name == given[i].name; };
      auto lacks = [&](const TensorDeclaration &input) { return !input.isOptional && !find(known, input.name); };
      auto lacking = std::find_if(inputs.begin(), inputs.end(), lacks);
      if (std::any_of(inputs.begin(), inputs.end(), hasName) && lacking != inputs.end())
        return invalidInput(where + ": no tensor '" + lacking->name + "', which goes with '" + given[i].name + "'");
    }
    return invalidInput(where + ": tensor '" + given[i].name + "' is no input of this model (" + listOf(names) + ")");
  }
  return outputs.empty() ? invalidInput(where + ": no tensors that an entry runs on (" + listOf(names) + ")")
                         : Status();
}

Status FunctionChain::checkNames(const Names &wanted) const {
  Names all;
  for (const auto &function : functions)
    for (const TensorDeclaration &output : function->outputs())
      all.push_back(output.name);
  for (const std::string &name : wanted)
    if (std::find(all.begin(), all.end(), name) == all.end())
      return invalidInput("--outputs: '" + name + "' is no output of this model (" + listOf(all) + ")");
  return Status();
}

Status FunctionChain::choose(const Names &wanted, std::vector<TensorToWrite> &outTensors) const {
  Names computed, chosen;
  for (const Output &output : outputs)
    computed.push_back(output.declared->name);
  for (const std::string &name : wanted.empty() ? computed : wanted) {
    size_t index = size_t(std::find(computed.begin(), computed.end(), name) - computed.begin());
    if (index == computed.size())
      return invalidInput("--outputs: '" + name + "' is not computed from these tensors, only " + listOf(computed));
    if (std::find(chosen.begin(), chosen.end(), name) != chosen.end())
      continue;
    chosen.push_back(name);
    const Output &output = outputs[index];
    outTensors.push_back(
        {name, dataTypeName(output.declared->type), output.tensor.shape, output.tensor.data, output.tensor.size});
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
  FunctionChain chain;
  HEDDLE_RETURN_IF_ERROR(checkOutputFile(options.ioOutput));
  HEDDLE_RETURN_IF_ERROR(chain.create(program, options.entry.empty() ? -1 : int64_t(entry)));
  HEDDLE_RETURN_IF_ERROR(chain.checkNames(options.outputs));
  SafetensorsFile file;
  HEDDLE_RETURN_IF_ERROR(file.open(options.ioInput));
  HEDDLE_RETURN_IF_ERROR(chain.run(file.tensors(), options.ioInput));
  std::vector<TensorToWrite> written;
  HEDDLE_RETURN_IF_ERROR(chain.choose(options.outputs, written));
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
  if (options.profile)
    runner.profileKernels();
  Phase phase;
  double best = INFINITY;
  for (int64_t round = 0; round < options.benchRounds; ++round) {
    if (wasInterrupted())
      return Status::failure("interrupted");
    std::vector<GraphOutput> outputs;
    for (KernelUse &use : runner.kernelUses())
      use = KernelUse();
    uint64_t startTicks = profileTicks();
    double start = secondsNow();
    HEDDLE_RETURN_IF_ERROR(runner.run(inputs, options.benchInput.empty() ? "--bench" : options.benchInput, outputs));
    double seconds = secondsNow() - start;
    phase.add(seconds, double(profileTicks() - startTicks), runner.kernelUses());
    best = std::min(best, seconds);
  }
  MachineLimits limits;
  if (options.profile) {
    HEDDLE_RETURN_IF_ERROR(runner.startThreads());
    limits = {measureReadBandwidth(runner.threadPool(), 5), measurePeaks(runner.threadPool(), 5)};
  }
  PhaseProfile profile(phase, program.metadata(), limits, options.benchRounds);
  if (options.json) {
    std::string text =
        format("{\"schema\": \"%s\", \"seconds\": %.9g, \"rounds\": %lld, \"peak_bytes\": %llu", schema::time, best,
               (long long)options.benchRounds, (unsigned long long)runner.peakBytes());
    if (options.profile)
      text += peaksAsJson(limits) + ",\"profile\":" + profile.asJson();
    return writeOut(text + "}\n");
  }
  std::string text = format("best of %lld runs: %.3f ms, %.1f MiB of tensors at most\n", (long long)options.benchRounds,
                            best * 1e3, double(runner.peakBytes()) / (1 << 20));
  return writeOut(options.profile ? text + profile.asText("run") : text);
}

} // namespace heddle
