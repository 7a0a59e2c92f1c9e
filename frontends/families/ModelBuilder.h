// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a family writes its architecture with: one call per model op, weights by name. A layer becomes a function of its own,
// whose weights are arguments, so that equal layers are equal functions.
#ifndef HEDDLE_FRONTENDS_FAMILIES_MODELBUILDER_H
#define HEDDLE_FRONTENDS_FAMILIES_MODELBUILDER_H

#include "dialect/HeddleDialect.h"
#include "frontends/ModelConfig.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringSet.h"

namespace heddle {

class ModelBuilder {
public:
  ModelBuilder(mlir::MLIRContext &context, const Model &model);

  const ModelConfig &config() const { return model.config; }
  // Whether the model has this weight: the config asks for it. What else lies in the checkpoint takes no part.
  bool has(const std::string &name) const { return weightNames.contains(prefix + name); }

  // ids (batch, sequence) -> (batch, sequence, hidden_size); learned position embeddings by position.
  mlir::Value embedTokens(const std::string &name);
  mlir::Value embedPositions(const std::string &name);

  // Runs `body` as function @layer_<index> of (batch, sequence, hidden_size). Names in it are relative to `scope`.
  mlir::Value layer(int64_t index, const std::string &scope, mlir::Value x,
                    llvm::function_ref<mlir::Value(mlir::Value)> body);

  // x W^T (+ <name>.bias where the model has one), W being <name>.weight (out, in).
  mlir::Value linear(mlir::Value x, const std::string &name);
  // Norms with <name>.weight (and <name>.bias). `eps` 0: the config's.
  mlir::Value rmsNorm(mlir::Value x, const std::string &name, double eps = 0);
  mlir::Value layerNorm(mlir::Value x, const std::string &name);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value glu(mlir::Value gate, mlir::Value up);
  mlir::Value activation(mlir::Value x) { return glu(x, mlir::Value()); }
  // Columns [begin, end) of the last dimension.
  mlir::Value columns(mlir::Value x, int64_t begin, int64_t end);

  // (batch, sequence, heads * head_dim) <-> (batch, heads, sequence, head_dim)
  mlir::Value splitHeads(mlir::Value x, int64_t heads);
  mlir::Value mergeHeads(mlir::Value x);
  // Norm over head_dim, rotary embedding (from dimension `offset` of a head on) and attention of the layer that is being
  // built.
  mlir::Value rope(mlir::Value x, int64_t offset = 0);
  mlir::Value attention(mlir::Value q, mlir::Value k, mlir::Value v);
  // Keys and values from a latent and a rotary key of one head, with one matrix per head each.
  mlir::Value latentAttention(mlir::Value q, mlir::Value latent, mlir::Value keyRope, mlir::ValueRange keyUps,
                              mlir::ValueRange valueUps);
  // Rows [begin, begin + rows) of the matrix `name`, as a weight of its own; `transposed`: as (columns, rows).
  mlir::Value weightRows(const std::string &name, int64_t begin, int64_t rows, bool transposed = false);
  // Where the config corrects scores, <router>.e_score_correction_bias does.
  mlir::Value moe(mlir::Value x, const std::string &router, const std::string &experts, const char *gate,
                  const char *up, const char *down);

  // Ends @forward with logits (batch, sequence, vocab_size), x W^T of the head `name`, softcapped where the config says so.
  void finish(mlir::Value x, const std::string &head);
  mlir::OwningOpRef<mlir::ModuleOp> take() { return std::move(module); }

private:
  // A matrix of the checkpoint, or rows of it.
  struct WeightPart {
    std::string name;
    int64_t begin = 0, rows = 0; // rows 0: all
    bool transposed = false;
  };
  mlir::Value weight(const std::string &name) { return weight(WeightPart{prefix + name}); }
  mlir::Value weight(WeightPart part);
  mlir::Value weightOp(const WeightPart &part);
  mlir::RankedTensorType partType(const WeightPart &part);
  mlir::RankedTensorType activations(int64_t width);

  const Model &model;
  llvm::StringSet<> weightNames;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::OpBuilder b;
  mlir::Location loc;
  mlir::func::FuncOp forward;
  mlir::Value ids, positions;   // (batch, sequence)
  std::string prefix;           // scope of names while a layer is built
  mlir::func::FuncOp layerFunc; // null outside layers
  int64_t layerIndex = -1;
  std::vector<WeightPart> layerWeights;
};

// How to build a family, by model_type.
struct Family {
  const char *architecture;
  void (*build)(ModelBuilder &b);
};
llvm::ArrayRef<Family> families();

// The model as a module of model ops: @forward(ids, positions) -> logits, one function per layer. Null with a diagnostic if no
// family knows the architecture.
mlir::OwningOpRef<mlir::ModuleOp> importModel(mlir::MLIRContext &context, const Model &model);

} // namespace heddle

#endif
