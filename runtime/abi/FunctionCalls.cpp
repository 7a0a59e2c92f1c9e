// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions over named tensors: graphs and encoders.
#include "runtime/abi/Calls.h"

#include "runtime/model/PackageFile.h"
#include "runtime/session/TensorFunction.h"

using namespace heddle;
using namespace heddle::abi;

struct heddle_function {
  ThreadPoolHandle pool;
  std::unique_ptr<TensorFunction> function;
  std::vector<std::vector<const char *>> dimensions; // of the inputs, then of the outputs
  std::vector<GraphOutput> outputs;                  // of the last call; none where it failed
  std::vector<heddle_tensor> results;                // the same for the caller
};

namespace {

static_assert(HEDDLE_F32 == int(package::DataType::F32) && HEDDLE_F16 == int(package::DataType::F16) &&
                  HEDDLE_BF16 == int(package::DataType::BF16) && HEDDLE_F64 == int(package::DataType::F64) &&
                  HEDDLE_I8 == int(package::DataType::I8) && HEDDLE_I16 == int(package::DataType::I16) &&
                  HEDDLE_I32 == int(package::DataType::I32) && HEDDLE_I64 == int(package::DataType::I64) &&
                  HEDDLE_U8 == int(package::DataType::U8) && HEDDLE_U16 == int(package::DataType::U16) &&
                  HEDDLE_U32 == int(package::DataType::U32) && HEDDLE_U64 == int(package::DataType::U64) &&
                  HEDDLE_BOOL == int(package::DataType::BOOL),
              "heddle.h numbers the types as packages do");

Status readTensors(const heddle_tensor *tensors, size_t count, std::vector<StoredTensor> &out) {
  for (size_t i = 0; i < count; ++i) {
    heddle_tensor tensor;
    HEDDLE_RETURN_IF_ERROR(copyElement("heddle_tensor", tensors, i, tensor));
    if (!tensor.name)
      return invalidInput(format("the name of tensor %zu is a null pointer", i));
    StoredTensor stored;
    stored.name = tensor.name;
    if (tensor.type < HEDDLE_F32 || tensor.type > HEDDLE_BOOL)
      return invalidInput("tensor '" + stored.name + format("': type is %d, expected a heddle_data_type", tensor.type));
    if (tensor.rank < 0 || tensor.rank > 64 || (tensor.rank > 0 && !tensor.shape))
      return invalidInput("tensor '" + stored.name +
                          format("': rank is %d, shape is%s a null pointer", tensor.rank, tensor.shape ? " not" : ""));
    auto type = package::DataType(tensor.type);
    stored.dtype = dataTypeName(type);
    stored.shape.assign(tensor.shape, tensor.shape + tensor.rank);
    if (!sizeInBytes(type, stored.shape, stored.size))
      return invalidInput("tensor '" + stored.name + "': shape " + shapeText(stored.shape) +
                          " is not that of a tensor");
    if (stored.size > 0 && !tensor.data)
      return invalidInput("the data of tensor '" + stored.name + "' is a null pointer");
    stored.data = static_cast<const uint8_t *>(tensor.data);
    for (const StoredTensor &other : out)
      if (other.name == stored.name)
        return invalidInput("tensor '" + stored.name + "' is given twice");
    out.push_back(std::move(stored));
  }
  return Status();
}

Status chooseFunction(const heddle_package &package, const char *name, size_t &outIndex) {
  std::vector<std::string> names = TensorFunction::namesOf(package.package->metadata());
  if (names.empty())
    return invalidInput("the model is a decoder and has no functions: it runs in sessions");
  outIndex = name ? size_t(std::find(names.begin(), names.end(), name) - names.begin()) : 0;
  std::string known;
  for (const std::string &other : names)
    known += (known.empty() ? "" : ", ") + other;
  return outIndex < names.size()
             ? Status()
             : invalidInput(std::string("'") + name + "' is no function of this model (" + known + ")");
}

heddle_status describe(const heddle_function *function, bool isOutput, size_t index, heddle_tensor_info *out) {
  Status valid = checkNotNull({{"function", function}});
  if (!valid.isOk())
    return report(valid);
  const std::vector<TensorDeclaration> &inputs = function->function->inputs(), &outputs = function->function->outputs();
  const std::vector<TensorDeclaration> &list = isOutput ? outputs : inputs;
  if (index >= list.size())
    return report(invalidInput(
        format("index is %zu, the function has %zu %s", index, list.size(), isOutput ? "outputs" : "inputs")));
  const TensorDeclaration &declared = list[index];
  return report(writeStruct("out_info",
                            heddle_tensor_info{sizeof *out, declared.name.c_str(), int32_t(declared.type),
                                               int32_t(declared.shape.size()), declared.shape.data(),
                                               function->dimensions[index + (isOutput ? inputs.size() : 0)].data()},
                            out));
}

} // namespace

size_t heddle_package_num_functions(const heddle_package *package) {
  if (!package)
    return 0;
  const package::Package &metadata = package->package->metadata();
  return size_t(metadata.task() == package::Task::Encode) + (metadata.graphs() ? metadata.graphs()->size() : 0);
}

const char *heddle_package_function_name(const heddle_package *package, size_t index) {
  if (index >= heddle_package_num_functions(package))
    return nullptr;
  const package::Package &metadata = package->package->metadata();
  bool isEncoder = metadata.task() == package::Task::Encode;
  return isEncoder && index == 0 ? TensorFunction::encoderName
                                 : metadata.graphs()->Get(unsigned(index - isEncoder))->name()->c_str();
}

heddle_status heddle_function_create(heddle_package *package, const heddle_function_options *options,
                                     heddle_function **out_function) {
  heddle_function_options given;
  Status valid = checkNotNull({{"package", package}, {"out_function", out_function}});
  if (valid.isOk())
    valid = copyOptions("heddle_function_options", options, given);
  if (valid.isOk() && given.reserved)
    valid = invalidInput("heddle_function_options: reserved is not 0");
  if (!valid.isOk())
    return report(valid);
  std::unique_ptr<heddle_function> made(new (std::nothrow) heddle_function);
  if (!made)
    return report(outOfMemory());
  if (Status status = createPool(*package, given.pool, given.threads, made->pool); !status.isOk())
    return report(status);
  std::unique_ptr<TensorFunction> function;
  std::vector<std::vector<const char *>> dimensions;
  heddle_status status = runInMemoryOrReport([&] {
    size_t index = 0;
    HEDDLE_RETURN_IF_ERROR(chooseFunction(*package, given.name, index));
    std::unique_ptr<TensorFunction> created;
    HEDDLE_RETURN_IF_ERROR(TensorFunction::create(*package->package, index, 0, &*made->pool, created));
    std::vector<std::vector<const char *>> names;
    for (const std::vector<TensorDeclaration> *list : {&created->inputs(), &created->outputs()})
      for (const TensorDeclaration &declared : *list) {
        names.emplace_back();
        for (const std::string &dimension : declared.dimensions)
          names.back().push_back(dimension.c_str());
      }
    std::swap(function, created);
    std::swap(dimensions, names);
    return Status();
  });
  if (status != HEDDLE_OK)
    return status;
  made->function = std::move(function);
  made->dimensions = std::move(dimensions);
  *out_function = made.release();
  return HEDDLE_OK;
}

void heddle_function_destroy(heddle_function *function) {
  delete function;
}

size_t heddle_function_num_inputs(const heddle_function *function) {
  return function ? function->function->inputs().size() : 0;
}
size_t heddle_function_num_outputs(const heddle_function *function) {
  return function ? function->function->outputs().size() : 0;
}
heddle_status heddle_function_input(const heddle_function *function, size_t index, heddle_tensor_info *out_info) {
  return describe(function, /*isOutput=*/false, index, out_info);
}
heddle_status heddle_function_output(const heddle_function *function, size_t index, heddle_tensor_info *out_info) {
  return describe(function, /*isOutput=*/true, index, out_info);
}

heddle_status heddle_function_call(heddle_function *function, const heddle_tensor *inputs, size_t num_inputs) {
  Status valid = checkNotNull({{"function", function}, array("inputs", inputs, num_inputs)});
  if (!valid.isOk())
    return report(valid);
  function->results.clear();
  return runInMemoryOrReport([&] {
    std::vector<StoredTensor> tensors;
    HEDDLE_RETURN_IF_ERROR(readTensors(inputs, num_inputs, tensors));
    std::vector<GraphOutput> outputs;
    HEDDLE_RETURN_IF_ERROR(function->function->call(tensors, "the inputs", outputs));
    std::vector<heddle_tensor> results;
    const std::vector<TensorDeclaration> &declared = function->function->outputs();
    results.reserve(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      results.push_back({sizeof(heddle_tensor), declared[i].name.c_str(), int32_t(declared[i].type),
                         int32_t(outputs[i].shape.size()), outputs[i].shape.data(), outputs[i].data});
    std::swap(function->outputs, outputs);
    std::swap(function->results, results);
    return Status();
  });
}

const heddle_tensor *heddle_function_result(const heddle_function *function, size_t index) {
  return function && index < function->results.size() ? &function->results[index] : nullptr;
}
