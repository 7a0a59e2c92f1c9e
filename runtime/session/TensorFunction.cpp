// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/TensorFunction.h"

#include "runtime/session/Session.h"
#include "runtime/session/TokenBatch.h"

#include <cstring>
#include <new>

namespace heddle {
namespace {

TensorDeclaration declarationOf(const package::GraphTensor &tensor) {
  TensorDeclaration declaration;
  declaration.name = tensor.name()->str();
  declaration.type = tensor.type();
  declaration.isOptional = tensor.optional();
  for (unsigned axis = 0; tensor.dims() && axis < tensor.dims()->size(); ++axis) {
    declaration.shape.push_back(tensor.dims()->Get(axis));
    declaration.dimensions.push_back(tensor.dim_names() ? tensor.dim_names()->Get(axis)->str() : "");
  }
  return declaration;
}

class GraphFunction : public TensorFunction {
public:
  GraphFunction(const Package &package, size_t index, int32_t threads, ThreadPool *pool)
      : graph(*package.metadata().graphs()->Get(unsigned(index))), runner(package, unsigned(index), threads, pool) {
    for (const package::GraphTensor *tensor : *graph.inputs())
      declaredInputs.push_back(declarationOf(*tensor));
    for (const package::GraphTensor *tensor : *graph.outputs())
      declaredOutputs.push_back(declarationOf(*tensor));
  }

  Status call(const std::vector<StoredTensor> &inputs, const std::string &where,
              std::vector<GraphOutput> &outOutputs) override {
    std::vector<GraphInput> ordered;
    HEDDLE_RETURN_IF_ERROR(orderInputs(graph, inputs, where, ordered));
    return runner.run(ordered, where, outOutputs);
  }

private:
  const package::Graph &graph;
  GraphRunner runner;
};

// Masked tokens are left out of the sequences, wherever they lie, and their outputs are zeros.
class EncoderFunction : public TensorFunction {
public:
  explicit EncoderFunction(const package::Package &metadata)
      : metadata(metadata), kinds(*metadata.encoder()->outputs()) {
    const package::ImageInput *image = metadata.encoder()->image();
    if (image)
      declaredInputs.push_back({"pixel_values",
                                package::DataType::F32,
                                {-1, image->channels(), image->size(), image->size()},
                                {"batch", "", "", ""}});
    for (const char *name : image ? std::vector<const char *>() : encoderInputs(*metadata.encoder()))
      declaredInputs.push_back(
          {name, package::DataType::I64, {-1, -1}, {"batch", "sequence"}, declaredInputs.size() > 0});
    for (const package::EncoderOutput *kind : kinds) {
      TensorDeclaration output = {kind->name()->str(), package::DataType::F32, {-1}, {"batch"}};
      if (!kind->of_sequences()) {
        output.shape.push_back(image ? imageTokens(*image) : -1);
        output.dimensions.push_back(image ? "" : "sequence");
      }
      if (!kind->squeezed())
        output.shape.push_back(kind->width()), output.dimensions.push_back("");
      declaredOutputs.push_back(std::move(output));
      memory.emplace_back(new Reserved);
    }
  }

  Status create(Package &package, int32_t threads, ThreadPool *pool) {
    return Encoder::create(package, threads, pool, encoder);
  }

  void setProgress(const Progress &progress) override { encoder->setProgress(progress); }

  Status call(const std::vector<StoredTensor> &inputs, const std::string &where,
              std::vector<GraphOutput> &outOutputs) override {
    TokenBatch tokens;
    HEDDLE_RETURN_IF_ERROR(tokens.read(inputs, where, metadata));
    HEDDLE_RETURN_IF_ERROR(tokens.completeRows(where, metadata));
    std::vector<GraphOutput> outputs(declaredOutputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::vector<int64_t> shape = declaredOutputs[i].shape;
      shape[0] = tokens.batch;
      if (!kinds.Get(unsigned(i))->of_sequences())
        shape[1] = tokens.length;
      HEDDLE_RETURN_IF_ERROR(take(std::move(shape), *memory[i], outputs[i]));
    }
    std::vector<EncoderInput> sequences = tokens.encoderInputs();
    Target target = {*this, tokens};
    HEDDLE_RETURN_IF_ERROR(encoder->run(
        sequences.data(), sequences.size(),
        [](void *user, size_t index, const float *const *values) { static_cast<Target *>(user)->put(index, values); },
        &target));
    outOutputs = std::move(outputs);
    return Status();
  }

private:
  struct Target {
    EncoderFunction &self;
    const TokenBatch &tokens;

    void put(size_t index, const float *const *values) const {
      const std::vector<int64_t> &columns = tokens.rows[index].columns;
      for (unsigned i = 0; i < self.kinds.size(); ++i) {
        int64_t width = self.kinds.Get(i)->width();
        float *to = self.memory[i]->as<float>();
        if (self.kinds.Get(i)->of_sequences())
          memcpy(to + int64_t(index) * width, values[i], width * sizeof(float));
        else
          for (size_t token = 0; token < columns.size(); ++token)
            memcpy(to + (int64_t(index) * tokens.length + columns[token]) * width, values[i] + int64_t(token) * width,
                   width * sizeof(float));
      }
    }
  };

  // Zeroed memory for an output.
  static Status take(std::vector<int64_t> shape, Reserved &memory, GraphOutput &outOutput) {
    uint64_t size;
    if (!sizeInBytes(package::DataType::F32, shape, size))
      return outOfMemory("an output of shape " + shapeText(shape) + " is too large");
    memory.release();
    HEDDLE_RETURN_IF_ERROR(memory.reserve(size, "outputs"));
    outOutput = {std::move(shape), memory.data(), size};
    return Status();
  }

  const package::Package &metadata;
  const flatbuffers::Vector<flatbuffers::Offset<package::EncoderOutput>> &kinds;
  std::unique_ptr<Encoder> encoder;
  std::vector<std::unique_ptr<Reserved>> memory; // of the outputs of the last call
};

} // namespace

std::vector<std::string> TensorFunction::namesOf(const package::Package &metadata) {
  std::vector<std::string> names;
  if (metadata.task() == package::Task::Encode)
    names.push_back(encoderName);
  for (unsigned i = 0; metadata.graphs() && i < metadata.graphs()->size(); ++i)
    names.push_back(metadata.graphs()->Get(i)->name()->str());
  return names;
}

Status TensorFunction::create(Package &package, size_t index, int32_t threads, ThreadPool *pool,
                              std::unique_ptr<TensorFunction> &outFunction) {
  bool isEncoder = package.metadata().task() == package::Task::Encode;
  if (isEncoder && index == 0) {
    std::unique_ptr<EncoderFunction> function(new EncoderFunction(package.metadata()));
    HEDDLE_RETURN_IF_ERROR(function->create(package, threads, pool));
    outFunction = std::move(function);
  } else {
    outFunction.reset(new GraphFunction(package, index - isEncoder, threads, pool));
  }
  return Status();
}

} // namespace heddle
