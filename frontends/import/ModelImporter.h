// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The builder that a family's graph is written with, in MLIR. Values go through the family's file as opaque pointers. Entries, layers and
// weights are in ImportModel.cpp, what a layer computes in ImporterOps.cpp.
#ifndef HEDDLE_FRONTENDS_IMPORT_MODELIMPORTER_H
#define HEDDLE_FRONTENDS_IMPORT_MODELIMPORTER_H

#include "dialect/HeddleDialect.h"
#include "frontends/Family.h"
#include "frontends/families/ModelBuilder.h"
#include "frontends/peft/Bottleneck.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringSet.h"

namespace heddle {

inline mlir::Value unwrap(TensorHandle x) {
  return mlir::Value::getFromOpaquePointer(x.value);
}

inline llvm::SmallVector<mlir::Value> unwrap(const std::vector<TensorHandle> &values) {
  return llvm::map_to_vector(values, [](TensorHandle x) { return unwrap(x); });
}

inline TensorHandle wrap(mlir::Value value) {
  return {value.getAsOpaquePointer()};
}

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

ActivationKind activationKind(Activation activation);

class ModelImporter final : public ModelBuilder {
public:
  ModelImporter(mlir::MLIRContext &context, const Model &model, const Bottlenecks *bottlenecks);

  const ModelConfig &config() const override { return *part; }
  bool has(const std::string &name) const override { return weightNames.contains(prefix + name); }
  void beginEntry(const std::string &name, const std::string &batch) override;
  TensorHandle rows(const std::string &name, const std::string &dim, int64_t width) override;
  TensorHandle keyMask(int64_t more) override;
  TensorHandle patchMask() override;
  TensorHandle placesOf(TensorHandle x, int64_t side) override;
  TensorHandle embedBoxes(const std::string &name, int64_t corner, int64_t from, int64_t most) override;
  TensorHandle pageDistances(const PageDistances &terms, TensorHandle onto) override;
  TensorHandle embedCounted(const std::string &name, int64_t padding) override;
  TensorHandle behind(TensorHandle x, TensorHandle y) override;
  TensorHandle tokensOfTexts(TensorHandle x) override;
  TensorHandle endToken(TensorHandle x, std::optional<int64_t> end) override;
  TensorHandle embedTokens(const std::string &name) override;
  TensorHandle embedPositions(const std::string &name) override;
  TensorHandle embedIds(const std::string &name, double scale) override;
  TensorHandle embedTokenTypes(const std::string &name) override;
  TensorHandle patches() override;
  TensorHandle pixelPatches() override;
  using ModelBuilder::layer;
  LayerValues layer(int64_t index, const std::string &scope, const LayerValues &inputs,
                    const std::function<LayerValues(const LayerValues &)> &body) override;
  TensorHandle linear(TensorHandle x, const std::string &name) override;
  TensorHandle linear(TensorHandle x, const std::string &weight, const std::string &bias, int64_t begin,
                      int64_t rows) override;
  TensorHandle rmsNorm(TensorHandle x, const std::string &name, double eps) override;
  TensorHandle rmsNormLessOne(TensorHandle x, const std::string &name, double eps) override;
  TensorHandle rmsNormAsStored(TensorHandle x, const std::string &name) override;
  TensorHandle layerNorm(TensorHandle x, const std::string &name, double eps) override;
  TensorHandle add(TensorHandle a, TensorHandle b) override;
  TensorHandle multiply(TensorHandle a, TensorHandle b) override;
  TensorHandle scale(TensorHandle x, double factor) override;
  TensorHandle clip(TensorHandle x, double limit) override;
  TensorHandle weightedSum(const std::vector<TensorHandle> &parts, TensorHandle weights, int64_t begin) override;
  TensorHandle withMagnitudeOf(TensorHandle x, TensorHandle like, double least) override;
  TensorHandle xielu(TensorHandle x, const std::string &name) override;
  TensorHandle aboveCutoff(TensorHandle x, double deviations) override;
  TensorHandle glu(TensorHandle gate, TensorHandle up) override { return gated(gate, up, config().activation); }
  TensorHandle glu(TensorHandle gate, TensorHandle up, Activation kind) override { return gated(gate, up, kind); }
  TensorHandle activation(TensorHandle x, Activation kind) override { return gated(x, TensorHandle(), kind); }
  TensorHandle columns(TensorHandle x, int64_t begin, int64_t end) override;
  TensorHandle tokensAt(TensorHandle x, int64_t place) override;
  TensorHandle lastTokens(TensorHandle x) override;
  TensorHandle gatherTokens(TensorHandle x, const std::vector<int32_t> &tokens, int64_t group,
                            const std::string &other) override;
  TensorHandle scaleColumns(TensorHandle x, const std::string &name) override;
  TensorHandle sideBySide(const std::vector<TensorHandle> &parts) override;
  TensorHandle repeatColumns(TensorHandle x, int64_t times) override;
  TensorHandle unitRows(TensorHandle x) override;
  TensorHandle similarities(TensorHandle x, TensorHandle y, const std::string &scale, const std::string &bias) override;
  TensorHandle meanToken(TensorHandle x) override;
  TensorHandle addTable(TensorHandle x, const std::string &name) override;
  TensorHandle windowAttention(TensorHandle q, TensorHandle k, TensorHandle v, int64_t heads,
                               const WindowTerms &terms) override;
  TensorHandle splitHeads(TensorHandle x, int64_t heads) override;
  TensorHandle mergeHeads(TensorHandle x) override;
  TensorHandle runs(const std::string &name, int64_t length, int64_t width) override;
  TensorHandle joinRuns(TensorHandle x) override;
  TensorHandle splitRuns(TensorHandle x, int64_t length) override;
  TensorHandle givenBeside(int64_t index) override;
  TensorHandle groupTokens(TensorHandle x, int64_t group, bool byColumn) override;
  TensorHandle rotated(TensorHandle heads, TensorHandle cosines, TensorHandle sines) override;
  TensorHandle keyBias(TensorHandle x) override;
  TensorHandle rope(TensorHandle x, int64_t offset) override;
  TensorHandle attention(TensorHandle q, TensorHandle k, TensorHandle v, const AttentionTerms &terms) override;
  TensorHandle causalConv(TensorHandle x, const std::string &name, std::optional<Activation> activation) override;
  TensorHandle linearAttention(TensorHandle q, TensorHandle k, TensorHandle v,
                               const LinearAttentionTerms &terms) override;
  TensorHandle sigmoid(TensorHandle x) override;
  TensorHandle softplus(TensorHandle x, const std::string &bias) override;
  TensorHandle decay(TensorHandle steps, const std::string &rates) override;
  TensorHandle scaleHeads(TensorHandle x, TensorHandle factors) override;
  TensorHandle scaleHeads(TensorHandle x, const std::string &name) override;
  TensorHandle ofSource(const LayerBody &project) override;
  TensorHandle latentAttention(TensorHandle q, TensorHandle latent, TensorHandle keyRope,
                               const std::vector<TensorHandle> &keyUps,
                               const std::vector<TensorHandle> &valueUps) override;
  TensorHandle weightRows(const std::string &name, int64_t begin, int64_t rows, bool transposed) override;
  TensorHandle moe(TensorHandle x, const std::string &block, TensorHandle routed) override;
  TensorHandle gatedExpert(TensorHandle x, const std::string &expert, const std::string &gate) override;
  void finish(TensorHandle x, const std::string &head, const std::string &bias) override;
  void output(const std::string &name, TensorHandle x, bool squeezed) override;
  void beginDecoder(TensorHandle lastHiddenState) override;

  // The entry that the layers behind pooling are: `pooled`, (texts, width), to `sentence_embedding`, (texts, width of the last).
  void addDense(const std::vector<PoolingConfig::Dense> &layers);
  // What follows are entries of the tower beside the decoder that has been built.
  void beginTower() { part = model.config.tower.get(); }
  llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> take();

private:
  // A matrix or vector of the checkpoint, or rows of it.
  struct WeightPart {
    std::string name;
    int64_t begin = 0, rows = 0; // rows 0: all
    bool transposed = false;
    bool isVector = false; // read as one, whatever its shape
  };
  mlir::Value weight(const std::string &name) { return weight(WeightPart{prefix + name}); }
  mlir::Value vector(const std::string &name) {
    return weight(WeightPart{prefix + name, 0, 0, false, /*isVector=*/true});
  }
  // What the caller of the layer that is being built passes: a weight, or a value of the entry.
  struct LayerOperand {
    WeightPart part;
    mlir::Value value; // null: the weight
  };
  // Begins the function of an encoder, or of what generates.
  void beginRagged(llvm::StringRef name, bool isEncoder);
  // The input of that name of the graph that is being built, which is one of its arguments from now on. `fill`: what it holds where it is not given;
  // none: it has to be.
  mlir::Value input(const std::string &name, mlir::RankedTensorType type, llvm::ArrayRef<llvm::StringRef> dims,
                    std::optional<int64_t> fill = std::nullopt);
  // bbox, (texts, sequence, 4).
  mlir::Value boxes();
  // Says what stands for all of an input where a graph is evaluated that nobody gives numbers for: random ones would mostly mean nothing.
  void standsFor(mlir::Value input, int64_t number);
  // input_ids, a mask or types, (batch, any number of `dim`), whose numbers are all below `limit`.
  mlir::Value integers(const std::string &name, int64_t limit, std::optional<int64_t> fill = std::nullopt,
                       llvm::StringRef dim = "sequence");
  // Ends the entry with its outputs.
  void endEntry();
  // y, which the weight `name` gave of `x`, plus what the adapters of its tokens add; y itself where none has a part in it. `rows` not 0: y is
  // rows [begin, begin + rows) of the product alone.
  mlir::Value adapted(mlir::Value y, mlir::Value x, const std::string &name, int64_t begin = 0, int64_t rows = 0);
  // Which of the rows of all adapters' A are each token's own: (batch, sequence, R) of 0 and 1.
  mlir::Value adapterMask();
  // x (batch, sequence, width), and of virtual tokens what the table `own` has in its place.
  mlir::Value ofVirtual(mlir::Value x, const std::string &own, const std::string &keep);
  // The same of keys or values of a layer, (batch, num_kv_heads, sequence, head_dim), as they are cached.
  TensorHandle ofPrefix(TensorHandle heads, const char *own);
  // What a linear layer gives that a bottleneck adapter takes, and the sum of that and its residual, before the norm behind it.
  struct BottleneckPlace {
    TensorHandle block, residual;
    std::string name; // of the linear layer, without the layer's scope
  };
  // `x` is what the linear layer `name` gives.
  void noteBottleneck(TensorHandle x, const std::string &name);
  // The place whose block is one of the two that are added, and that whose sum is normed; each is given once.
  std::optional<BottleneckPlace> takeBlock(TensorHandle a, TensorHandle c);
  std::optional<BottleneckPlace> takeSum(TensorHandle x);
  // Block and residual, which a norm is going to read.
  TensorHandle sumOf(const BottleneckPlace &place);
  // The block with its residual, the adapter and, where there is one, the norm behind them.
  TensorHandle bottlenecked(const BottleneckPlace &place, const LayerBody &norm);
  TensorHandle bottleneckOf(const BottleneckPlace &place, TensorHandle x, TensorHandle residual);
  // Fails where an adapter changes a weight that is read in another way.
  llvm::LogicalResult checkAdapters();
  mlir::Value weight(const WeightPart &part);
  mlir::Value weightOp(const WeightPart &part);
  // The parts of a tensor, in the order in which the graph reads its rows.
  llvm::SmallVector<mlir::Value> orderedRows(const std::string &name);
  mlir::RankedTensorType partType(const WeightPart &part);
  mlir::RankedTensorType activations(int64_t width);
  // Says what comes next: a part of the layer that is being built, or of the model.
  void enter(const std::string &name);
  TensorHandle embed(const WeightPart &table, mlir::Value rows, double scale, mlir::Value given = {});
  TensorHandle embed(const std::string &name, mlir::Value rows, double scale) {
    return embed(WeightPart{name}, rows, scale);
  }
  // (1, num_heads, sequence, sequence); null where there is none.
  mlir::Value positionBias(const DistanceBias &positions);
  TensorHandle gated(TensorHandle gate, TensorHandle up, Activation activation);
  TensorHandle rmsNormed(TensorHandle x, const std::string &name, double eps, double weightOffset);
  mlir::Value splat(double number, mlir::Value like);
  mlir::Value ones(mlir::Value x);
  // Ends the entry, whose type says what it gives.
  void returnAll(mlir::ValueRange results);

  const Model &model;
  const ModelConfig *part; // of the model: what is being built
  llvm::StringSet<> weightNames;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::OpBuilder b;
  mlir::Location loc;
  mlir::func::FuncOp entry;   // that is being built
  std::string batchName;      // of a graph's: of the first dimension of what it gives
  std::string tokensName;     // of its second one
  bool encodes = false;       // whether it is an encoder
  mlir::func::FuncOp encoder; // of an encoder-decoder, once its decoder is being built
  llvm::SmallVector<mlir::Value>
      ofEncoder; // what it gives: the last hidden state, then keys and values for the decoder's layers
  mlir::Value
      given; // of a decoder that sees images: what stands for embeddings of ids from vocab_size on; (any number, hidden_size)
  mlir::Value ids,
      positions; // (batch, sequence); token types are the third argument of an encoder, which of its tokens are global the last
  std::string prefix;           // scope of names while a layer is built
  mlir::func::FuncOp layerFunc; // null outside layers
  int64_t layerIndex = -1;
  std::vector<LayerOperand> layerOperands; // behind the first value that it reads and the positions
  mlir::Value entryMask, layerMask;        // adapterMask() of the entry, and of the layer that is being built
  mlir::Value entryNumbers, layerNumbers;  // each token's number (frontends/peft/VirtualTokens.h), of the same
  llvm::StringSet<> adaptedNames;          // weights that adapted() has met, and tables of ofPrefix()
  const Bottlenecks *bottlenecks;          // null: there are none
  std::vector<BottleneckPlace> blocks;     // that nothing has been added to yet
  std::vector<std::pair<void *, BottleneckPlace>> sums; // that no norm has read yet, by their values
  int64_t numBottlenecks = 0;                           // that have been added
  llvm::SmallVector<mlir::Value> outputs;               // of an encoder, with the attributes of each
  llvm::SmallVector<mlir::Attribute> outputAttributes;
};

} // namespace heddle

#endif
