// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Passes.h"

#include "compiler/raise/ForwardConfig.h"
#include "compiler/raise/ForwardWriter.h"
#include "compiler/raise/LayerFinder.h"
#include "compiler/raise/Remarks.h"
#include "compiler/raise/SeparateHeads.h"
#include "dialect/Entries.h"

namespace heddle {
#define GEN_PASS_DEF_FORMFORWARD
#include "compiler/raise/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

// input_ids -> logits, causal: the head of a decoder. Null, with a reason, if the graph is none.
static LinearOp decoderHead(func::FuncOp graph, std::string &reason) {
  reason = noDecoderSignature(graph);
  if (!reason.empty())
    return {};
  auto attentions = llvm::to_vector(graph.getOps<AttentionOp>());
  if (graph.getNumArguments() != 1)
    reason = "its inputs beside input_ids are not bound (heddle-bind-decoder-inputs)";
  else if (attentions.empty())
    reason = "it has no attention";
  for (AttentionOp attention : attentions)
    if (bool adds = attention.getBias() && !attention.getBias().getDefiningOp<PositionBiasOp>();
        adds || !attention.getMask().getCausal())
      reason = describe(attention) + (adds ? " adds a bias to its scores" : " is not causal");
  if (!reason.empty())
    return {};
  Value result = graph.front().getTerminator()->getOperand(0);
  while (Operation *op = result.getDefiningOp()) {
    Value inner = isa<SoftcapOp>(op) ? op->getOperand(0) : scaledOperand(op).first;
    if (!inner)
      break;
    result = inner;
  }
  auto head = result.getDefiningOp<LinearOp>();
  if (!head)
    reason = "its logits are no product with stored weights";
  return head;
}

namespace {
struct FormForward : heddle::impl::FormForwardBase<FormForward> {
  void runInStage() override {
    ModuleOp module = getOperation();
    form(module);
    module.walk([](WeightOp op) {
      for (StringRef known : {"heddle.content", "heddle.by_distance", "heddle.frequencies", "heddle.cosines",
                              "heddle.amplitude", "heddle.lines"})
        op->removeAttr(known);
    });
  }

  void form(ModuleOp module) {
    auto graph = onlyGraph(module);
    if (!graph || !graph.getBody().hasOneBlock())
      return;
    std::string reason;
    LinearOp head = decoderHead(graph, reason);
    if (!head)
      return explain(graph, reason);
    separateHeads(graph);
    SmallVector<Value> boundaries = LayerFinder(graph).run(head);
    if (boundaries.empty())
      return explain(graph, "its attentions do not lie in layers that follow each other");
    // A step gives what the head reads beside the logits, and a sum is written in place of its residual.
    if (boundaries.back() == head.getInput() && boundaries.back().getDefiningOp<arith::AddFOp>())
      return explain(graph, "its logits are a product with the last layer's sum, which no norm precedes");
    SmallVector<Operation *> before;
    for (Operation &op : *module.getBody())
      before.push_back(&op);
    ForwardWriter writer(graph, boundaries);
    if (succeeded(writer.run())) {
      graph.erase();
      return;
    }
    for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
      if (!llvm::is_contained(before, &op)) {
        op.dropAllReferences();
        op.erase();
      }
    explain(graph, writer.why());
  }

  static void explain(func::FuncOp graph, const Twine &reason) {
    graph->setAttr(noDecoderAttr, StringAttr::get(graph.getContext(), reason));
    graph.emitRemark("no generate: ") << reason;
  }
};
} // namespace
