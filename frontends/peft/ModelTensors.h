// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tensors of a model as adapters see them: by the names of Hugging Face's modules, in whatever order its file stores their rows.
#ifndef HEDDLE_FRONTENDS_PEFT_MODELTENSORS_H
#define HEDDLE_FRONTENDS_PEFT_MODELTENSORS_H

#include "frontends/Family.h"
#include "frontends/peft/Adapter.h"

namespace heddle {

// A rule that asks for a tensor, and the layer that it asks of.
struct RuledTensor {
  const TensorRule *rule;
  int64_t layer;
};

class ModelTensors {
public:
  explicit ModelTensors(const Model &model) : model(model) { list(); }
  // Once the config asks for others.
  void list();
  // The tensor `part` (".weight", ".bias") of a module; "" where the program reads none.
  std::string find(const std::string &module, const char *part) const;
  const RuledTensor &rule(const std::string &tensor) const { return ruled.find(tensor)->second; }
  bool isNamed(const std::string &module, const char *tensor) const;
  // Which row of Hugging Face's matrix each stored row of `tensor` is; empty where they are the same.
  std::vector<int64_t> rowOrder(const TensorInfo &tensor, const RuledTensor &of) const;
  // Which column of Hugging Face's each column of a head of keys is, as the model's file stores them; empty where they are the same.
  std::vector<int64_t> headOrder() const;
  // Refuses a change of `tensor` whose rows or columns a GGUF file has in an order that rowOrder() does not know: value heads that are tiled.
  Status checkOrder(const Adapter &adapter, const std::string &module, const std::string &tensor) const;
  // Whether A and B fit `tensor`, which is called `name`.
  Status checkFit(const Adapter &adapter, const std::string &module, const AdaptedModule &adapted,
                  const std::string &name, const TensorInfo &tensor) const;

private:
  const Model &model;
  std::map<std::string, RuledTensor> ruled; // all that the program reads
};

// All numbers of a tensor of an adapter.
std::vector<float> numbersOf(const Checkpoint &checkpoint, const TensorInfo &tensor);

} // namespace heddle

#endif
