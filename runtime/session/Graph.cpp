// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/Graph.h"

#include <algorithm>
#include <cstring>

namespace heddle {

uint64_t elementBytes(package::DataType type) {
  switch (type) {
  case package::DataType::F64:
  case package::DataType::I64:
  case package::DataType::U64:
    return 8;
  case package::DataType::F32:
  case package::DataType::I32:
  case package::DataType::U32:
    return 4;
  case package::DataType::F16:
  case package::DataType::BF16:
  case package::DataType::I16:
  case package::DataType::U16:
    return 2;
  default:
    return 1;
  }
}

bool sizeInBytes(package::DataType type, const std::vector<int64_t> &shape, uint64_t &outSize) {
  outSize = elementBytes(type);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end())
    outSize = 0;
  for (int64_t dim : shape)
    if (dim < 0 || (outSize && __builtin_mul_overflow(outSize, uint64_t(dim), &outSize)))
      return false;
  return outSize <= INT64_MAX;
}

static bool parseDataType(std::string_view name, package::DataType &outType) {
  for (package::DataType type : package::EnumValuesDataType())
    if (name == dataTypeName(type)) {
      outType = type;
      return true;
    }
  return false;
}

// The size of the dimension of that name in what was given; -1 where nothing has it.
static int64_t sizeOf(std::string_view dim, const package::Graph &graph, const std::vector<StoredTensor> &tensors) {
  for (const package::GraphTensor *declared : *graph.inputs())
    for (const StoredTensor &tensor : tensors)
      for (unsigned axis = 0; tensor.name == declared->name()->str() && declared->dim_names() &&
                              axis < std::min<size_t>(tensor.shape.size(), declared->dim_names()->size());
           ++axis)
        if (declared->dim_names()->Get(axis)->string_view() == dim)
          return tensor.shape[axis];
  return -1;
}

// An optional input that was not given.
static Status fill(const package::Graph &graph, const package::GraphTensor &declared,
                   const std::vector<StoredTensor> &tensors, const std::string &where, GraphInput &input) {
  input.type = declared.type();
  for (const flatbuffers::String *dim : *declared.dim_names()) {
    input.shape.push_back(sizeOf(dim->string_view(), graph, tensors));
    if (input.shape.back() < 0)
      return invalidInput(where + ": no tensor '" + declared.name()->str() + "', and none that has its dimension '" +
                          dim->str() + "'");
  }
  uint64_t size = 0, width = elementBytes(input.type);
  constexpr uint64_t most = uint64_t(1) << 32;
  if (!sizeInBytes(input.type, input.shape, size) || size > most)
    return outOfMemory(where + ": tensor '" + declared.name()->str() + "' of shape " + shapeText(input.shape) +
                       " is too large");
  input.filled.resize(size);
  for (uint64_t at = 0; at < size; at += width) {
    int64_t number = declared.fill(); // little-endian
    memcpy(input.filled.data() + at, &number, width);
  }
  return Status();
}

Status orderInputs(const package::Graph &graph, const std::vector<StoredTensor> &tensors, const std::string &where,
                   std::vector<GraphInput> &outInputs) {
  std::string names;
  for (const package::GraphTensor *input : *graph.inputs())
    names += (names.empty() ? "" : ", ") + input->name()->str();
  for (const StoredTensor &tensor : tensors)
    if (std::none_of(graph.inputs()->begin(), graph.inputs()->end(),
                     [&](const package::GraphTensor *input) { return input->name()->str() == tensor.name; }))
      return invalidInput(where + ": tensor '" + tensor.name + "' is no input of this model (" +
                          (names.empty() ? "it has none" : names) + ")");
  for (const package::GraphTensor *declared : *graph.inputs()) {
    auto tensor = std::find_if(tensors.begin(), tensors.end(),
                               [&](const StoredTensor &t) { return t.name == declared->name()->str(); });
    if (tensor == tensors.end() && declared->optional()) {
      outInputs.emplace_back();
      HEDDLE_RETURN_IF_ERROR(fill(graph, *declared, tensors, where, outInputs.back()));
      continue;
    }
    if (tensor == tensors.end())
      return invalidInput(where + ": no tensor '" + declared->name()->str() + "', a " + dataTypeName(declared->type()) +
                          " of shape " + declaredShape(*declared));
    GraphInput input;
    if (!parseDataType(tensor->dtype, input.type))
      return invalidInput(where + ": tensor '" + tensor->name + "' is " + std::string(tensor->dtype) + ", expected " +
                          dataTypeName(declared->type()));
    input.shape = tensor->shape;
    input.data = tensor->data;
    outInputs.push_back(std::move(input));
  }
  return Status();
}

Status GraphRunner::checkInputs(const std::vector<GraphInput> &inputs, const std::string &where) const {
  struct NamedDim {
    const flatbuffers::String *name;
    const flatbuffers::String *tensor;
    int64_t size;
  };
  std::vector<NamedDim> named;
  const auto &declared = *graph().inputs();
  for (unsigned i = 0; i < declared.size(); ++i) {
    const package::GraphTensor &tensor = *declared[i];
    const GraphInput &input = inputs[i];
    std::string subject = where + ": tensor '" + tensor.name()->str() + "' ";
    if (input.type != tensor.type())
      return invalidInput(subject + "is " + dataTypeName(input.type) + ", expected " + dataTypeName(tensor.type()));
    bool fits = input.shape.size() == (tensor.dims() ? tensor.dims()->size() : 0);
    for (size_t axis = 0; fits && axis < input.shape.size(); ++axis)
      fits = tensor.dims()->Get(axis) < 0 || tensor.dims()->Get(axis) == input.shape[axis];
    if (!fits)
      return invalidInput(subject + "has shape " + shapeText(input.shape) + ", expected " + declaredShape(tensor));
    for (size_t axis = 0; tensor.dim_names() && axis < input.shape.size(); ++axis) {
      const flatbuffers::String *name = tensor.dim_names()->Get(axis);
      if (!name->size() || tensor.dims()->Get(axis) >= 0)
        continue;
      auto same =
          std::find_if(named.begin(), named.end(), [&](const NamedDim &d) { return d.name->str() == name->str(); });
      if (same == named.end())
        named.push_back({name, tensor.name(), input.shape[axis]});
      else if (same->size != input.shape[axis])
        return invalidInput(subject + "has shape " + shapeText(input.shape) + ", but " + name->str() + " is " +
                            std::to_string(same->size) + " in tensor '" + same->tensor->str() + "'");
    }
  }
  return Status();
}

// The input's bytes, or a copy of them that generated code can read: aligned to their type, booleans 0 or 1.
const void *GraphRunner::usable(const GraphInput &input, Status &outStatus) {
  uint64_t size = 0;
  sizeInBytes(input.type, input.shape, size);
  auto bytes = static_cast<const uint8_t *>(input.bytes());
  bool isClean = reinterpret_cast<uintptr_t>(bytes) % elementBytes(input.type) == 0;
  if (input.type == package::DataType::BOOL)
    isClean = std::all_of(bytes, bytes + size, [](uint8_t byte) { return byte <= 1; });
  if (isClean)
    return bytes;
  auto copy = static_cast<uint8_t *>(allocate(int64_t(size), outStatus));
  if (!copy)
    return nullptr;
  memcpy(copy, bytes, size);
  if (input.type == package::DataType::BOOL)
    for (uint64_t i = 0; i < size; ++i)
      copy[i] = copy[i] != 0;
  return copy;
}

void *GraphRunner::allocate(int64_t size, Status &outStatus) {
  void *memory = size < 0 ? nullptr : arena.allocate(uint64_t(size));
  if (!memory)
    outStatus = outOfMemory(format("out of memory: a tensor of %lld bytes beside %llu held", (long long)size,
                                   (unsigned long long)arena.heldBytes()));
  return memory;
}

void *GraphRunner::onAllocate(heddle_graph_call *call, int64_t size) {
  auto &self = *reinterpret_cast<Call *>(call);
  if (void *memory = self.runner->allocate(size, self.ended))
    return memory;
  longjmp(self.runner->caller, 1);
}

void GraphRunner::onRelease(heddle_graph_call *call, void *memory) {
  if (memory)
    reinterpret_cast<Call *>(call)->runner->arena.release(memory);
}

void GraphRunner::onFail(heddle_graph_call *call, const char *message) {
  auto &self = *reinterpret_cast<Call *>(call);
  self.ended = invalidInput(message);
  longjmp(self.runner->caller, 1);
}

void GraphRunner::onParallel(heddle_graph_call *call, heddle_graph_task task, const void *argument) {
  auto &self = *reinterpret_cast<Call *>(call);
  GraphRunner &runner = *self.runner;
  self.ended = runner.startThreads();
  if (!self.ended.isOk())
    longjmp(runner.caller, 1);
  runner.pool->runParts(task, argument);
}

Status GraphRunner::startThreads() {
  if (pool)
    return Status();
  HEDDLE_RETURN_IF_ERROR(pool.create(shared, threads));
  if (!shared)
    package.sayOfThreads(*pool);
  return Status();
}

void GraphRunner::profileKernels() {
  uses.assign(package.metadata().kernels()->size() + 1, KernelUse());
}

void GraphRunner::onObserve(heddle_graph_call *call, int64_t kernel, double work, int64_t ended) {
  GraphRunner &runner = *reinterpret_cast<Call *>(call)->runner;
  uint64_t now = profileTicks();
  if (!ended) {
    runner.taskStart = now;
    return;
  }
  bool isLoop = kernel < 0 || size_t(kernel) + 1 >= runner.uses.size();
  KernelUse &use = isLoop ? runner.uses.back() : runner.uses[size_t(kernel)];
  use.ticks += double(now - runner.taskStart);
  use.launches += 1;
  if (isLoop)
    return;
  // A row costs the same in every run; what has no such cost says its work alone.
  double perRow = double(runner.package.metadata().kernels()->Get(unsigned(kernel))->flops_per_row());
  if (perRow > 0)
    use.rows += 2 * work / perRow;
  else
    use.work += work;
}

Status GraphRunner::run(const std::vector<GraphInput> &inputs, const std::string &where,
                        std::vector<GraphOutput> &outOutputs) {
  HEDDLE_RETURN_IF_ERROR(checkInputs(inputs, where));
  arena.reset();
  const auto &outputs = *graph().outputs();
  std::vector<heddle_graph_tensor> read(inputs.size()), written(outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    // Generated code reads what it is given: the ABI has one tensor type for both directions.
    Status status;
    read[i] = {const_cast<void *>(usable(inputs[i], status)), const_cast<int64_t *>(inputs[i].shape.data())};
    HEDDLE_RETURN_IF_ERROR(std::move(status));
  }
  std::vector<GraphOutput> results(written.size());
  for (size_t i = 0; i < written.size(); ++i) {
    const auto *dims = outputs.Get(i)->dims();
    results[i].shape.resize(dims ? dims->size() : 0);
    written[i] = {nullptr, results[i].shape.data()};
  }
  Call call = {{package.hostWeights(), read.data(), written.data(), onAllocate, onRelease, onFail, onParallel,
                uses.empty() ? nullptr : onObserve},
               this,
               {}};
  if (setjmp(caller) == 0)
    package.code().graphs[index](&call);
  if (const Status &ended = call.ended; !ended.isOk()) {
    std::string message = ended.code() == StatusCode::InvalidInput ? where + ": " + ended.message() : ended.message();
    return Status(ended.code(), std::move(message));
  }
  for (size_t i = 0; i < written.size(); ++i) {
    results[i].data = written[i].data;
    if (!sizeInBytes(outputs.Get(i)->type(), results[i].shape, results[i].size))
      return Status::failure("output '" + outputs.Get(i)->name()->str() + "' has shape " + shapeText(results[i].shape));
  }
  outOutputs = std::move(results);
  return Status();
}

} // namespace heddle
