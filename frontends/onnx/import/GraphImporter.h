// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks graphs, subgraphs and functions, and gives each node to the lowering of its op.
#ifndef HEDDLE_FRONTENDS_ONNX_IMPORT_GRAPHIMPORTER_H
#define HEDDLE_FRONTENDS_ONNX_IMPORT_GRAPHIMPORTER_H

#include "frontends/onnx/import/AngleTable.h"
#include "frontends/onnx/import/GraphBuilder.h"

#include "llvm/ADT/StringMap.h"

namespace heddle {

// The values that nodes see by name; an inner graph also sees those of the graphs around it.
struct ValueScope {
  const ValueScope *parent = nullptr;
  llvm::StringMap<GraphValue> values;

  const GraphValue *find(llvm::StringRef name) const;
};

// The attributes of the call, for the nodes of a function.
struct CallFrame {
  const OnnxNode *call = nullptr;
  const OnnxFunction *function = nullptr;
  const CallFrame *caller = nullptr;
};

class NodeImport;

// Which branch is taken of each `If` whose branches differ in rank: what follows is lowered for one of them.
struct BranchChoices {
  llvm::DenseMap<const OnnxNode *, bool> takesThen;
  const OnnxNode *missing = nullptr; // the first that was met without a choice
};

class GraphImporter {
public:
  GraphImporter(const OnnxModel &model, GraphBuilder &g) : model(model), g(g) {}

  // The outputs of the graph, whose inputs are given; its nodes see `outer`.
  llvm::SmallVector<GraphValue> importGraph(const OnnxGraph &graph, llvm::ArrayRef<GraphValue> inputs,
                                            const ValueScope *outer);
  // Adds the constants and weights of a graph.
  void addInitializers(const OnnxGraph &graph, ValueScope &scope);
  GraphValue constantOf(const OnnxTensor &tensor);
  bool importNodes(const std::vector<OnnxNode> &nodes, ValueScope &scope);
  const ValueScope *currentScope() const { return scope; }
  const CallFrame *currentFrame() const { return frame; }

  const OnnxModel &model;
  GraphBuilder &g;
  BranchChoices choices;

private:
  bool importNode(const OnnxNode &node, size_t index, ValueScope &scope);
  bool callFunction(const OnnxFunction &function, NodeImport &call);
  // "model.onnx:/layers.3/Softmax"
  std::string placeOf(const OnnxNode &node, size_t index);
  int64_t opsetOf(const OnnxNode &node);
  std::string uniqueWeightName(const std::string &name);

  const ValueScope *scope = nullptr;
  const CallFrame *frame = nullptr;
  std::string prefix; // of node names, inside functions
  llvm::StringMap<unsigned> weightNames;
  AngleTables angles{model};
};

// A node while it is lowered: its inputs and attributes, checked where they are asked for.
class NodeImport {
public:
  NodeImport(GraphImporter &importer, const OnnxNode &node, int64_t opset, std::vector<GraphValue> inputs)
      : importer(importer), g(importer.g), node(node), opset(opset), inputs(std::move(inputs)),
        outputs(node.outputs.size()) {}

  size_t numInputs() const { return inputs.size(); }
  bool has(size_t i) const { return i < inputs.size() && inputs[i]; }
  // Input i; a missing one is an error, and so is a sequence.
  const GraphValue &in(size_t i);
  // The same, or nothing where it is left out.
  GraphValue optional(size_t i) { return has(i) ? in(i) : GraphValue(); }
  // The tensors of input i, which must be a sequence.
  llvm::ArrayRef<GraphValue> sequence(size_t i);
  // Every input; one that is missing is an error.
  llvm::ArrayRef<GraphValue> all();
  bool wants(size_t i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }
  void out(GraphValue value, size_t i = 0) {
    if (i < outputs.size())
      outputs[i] = std::move(value);
  }
  // The node's outputs, in order, after the lowering.
  std::vector<GraphValue> &results() { return outputs; }

  // Attributes; a value of another type is an error.
  const OnnxAttribute *attribute(llvm::StringRef name, int32_t type);
  bool hasAttribute(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, int64_t otherwise);
  double real(llvm::StringRef name, double otherwise);
  std::string text(llvm::StringRef name, llvm::StringRef otherwise);
  std::optional<llvm::SmallVector<int64_t>> integers(llvm::StringRef name);
  const OnnxGraph *graph(llvm::StringRef name);
  const OnnxTensor *tensor(llvm::StringRef name);

  // `axis` counted from the front; out of [-rank, rank) is an error.
  int64_t axis(int64_t axis, int64_t rank);
  llvm::SmallVector<int64_t> axes(llvm::ArrayRef<int64_t> axes, int64_t rank);
  GraphValue fail(const llvm::Twine &what) { return g.fail(what); }
  GraphValue unsupported(const llvm::Twine &what) { return g.fail(what, StatusCode::Unsupported); }
  // Whether a <= c: known to be wrong it is the node's error, unknown it is checked when the graph runs.
  bool requireAtMost(const Dim &a, const Dim &c, const llvm::Twine &what);
  bool checkRank(size_t i, int64_t rank, llvm::StringRef what);

  GraphImporter &importer;
  GraphBuilder &g;
  const OnnxNode &node;
  const int64_t opset;

private:
  std::vector<GraphValue> inputs, outputs;
};

// A lowering sets every output, or fails through the builder.
using Lower = void (*)(NodeImport &n);
struct OpRow {
  const char *domain;
  const char *name;
  int64_t since; // the first opset whose definition it reads
  Lower lower;
};

// One table per group of ops.
llvm::ArrayRef<OpRow> elementwiseOps();
llvm::ArrayRef<OpRow> shapeOps();
llvm::ArrayRef<OpRow> sliceOps();
llvm::ArrayRef<OpRow> indexingOps();
llvm::ArrayRef<OpRow> scatterOps();
llvm::ArrayRef<OpRow> contractionOps();
llvm::ArrayRef<OpRow> convolutionOps();
llvm::ArrayRef<OpRow> randomOps();
llvm::ArrayRef<OpRow> reductionOps();
llvm::ArrayRef<OpRow> resizeOps();
llvm::ArrayRef<OpRow> fourierOps();
llvm::ArrayRef<OpRow> gridSampleOps();
llvm::ArrayRef<OpRow> sequenceOps();
llvm::ArrayRef<OpRow> sortingOps();
llvm::ArrayRef<OpRow> mixtureOfExpertsOps();
llvm::ArrayRef<OpRow> normalizationOps();
llvm::ArrayRef<OpRow> attentionOps();
llvm::ArrayRef<OpRow> recurrenceOps();
llvm::ArrayRef<OpRow> recurrentLayerOps();
llvm::ArrayRef<OpRow> quantizationOps();
llvm::ArrayRef<OpRow> controlFlowOps();
llvm::ArrayRef<OpRow> microsoftOps();
llvm::ArrayRef<OpRow> microsoftAttentionOps();
llvm::ArrayRef<OpRow> microsoftQuantizationOps();

} // namespace heddle

#endif
