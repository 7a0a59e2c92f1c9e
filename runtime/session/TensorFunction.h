// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function of a model over named tensors: a graph of a package of graphs, or an encoder. What it is to the command line and to the C ABI.
#ifndef HEDDLE_RUNTIME_SESSION_TENSORFUNCTION_H
#define HEDDLE_RUNTIME_SESSION_TENSORFUNCTION_H

#include "bytes/Safetensors.h"
#include "runtime/session/Graph.h"

#include <memory>
#include <string>
#include <vector>

namespace heddle {

struct Progress;

struct TensorDeclaration {
  std::string name;
  package::DataType type = package::DataType::F32;
  std::vector<int64_t> shape;          // outermost first; -1 where the call decides
  std::vector<std::string> dimensions; // (rank): names, "" for none; dimensions of one name are equal in a call
  bool isOptional = false;             // a call may lack it
};

class TensorFunction {
public:
  static constexpr const char *encoderName = "encode";
  // The names of a model's functions, an encoder's first; none of a decoder.
  static std::vector<std::string> namesOf(const package::Package &metadata);
  // Function `index` of them. `pool` null: `threads` of its own, 0: defaultThreadCount().
  static Status create(Package &package, size_t index, int32_t threads, ThreadPool *pool,
                       std::unique_ptr<TensorFunction> &outFunction);
  virtual ~TensorFunction() = default;

  const std::vector<TensorDeclaration> &inputs() const { return declaredInputs; }
  const std::vector<TensorDeclaration> &outputs() const { return declaredOutputs; }

  // Takes inputs in any order, no two of one name; `where` begins the message of every error about them. `outOutputs` are in the order
  // of outputs(), valid until the next call.
  virtual Status call(const std::vector<StoredTensor> &inputs, const std::string &where,
                      std::vector<GraphOutput> &outOutputs) = 0;
  // Of an encoder.
  virtual void setProgress(const Progress &) {}

protected:
  std::vector<TensorDeclaration> declaredInputs, declaredOutputs;
};

} // namespace heddle

#endif
