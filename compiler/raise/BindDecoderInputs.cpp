// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/ForwardConfig.h"
#include "compiler/raise/Passes.h"
#include "compiler/raise/WidenActivations.h"
#include "dialect/Entries.h"

#include "mlir/IR/Builders.h"

namespace heddle {
#define GEN_PASS_DEF_BINDDECODERINPUTS
#include "compiler/raise/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

// (batch, sequence) as input_ids: ones, or what counts the tokens of a sequence.
static Value tokenGrid(OpBuilder &b, Location loc, RankedTensorType type, Value ids, bool counts) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, ids);
  Value init = tensor::EmptyOp::create(b, loc, sizes, type.getElementType());
  AffineMap map = b.getMultiDimIdentityMap(2);
  auto parallel = SmallVector<utils::IteratorType>(2, utils::IteratorType::parallel);
  auto grid = linalg::GenericOp::create(
      b, loc, init.getType(), ValueRange(), init, map, parallel, [&](OpBuilder &b, Location loc, ValueRange) {
        Value element;
        if (counts)
          element = arith::IndexCastOp::create(b, loc, type.getElementType(), linalg::IndexOp::create(b, loc, 1));
        else
          element = arith::ConstantOp::create(b, loc, b.getOneAttr(type.getElementType()));
        linalg::YieldOp::create(b, loc, element);
      });
  Value result = grid.getResult(0);
  return result.getType() == type ? result : tensor::CastOp::create(b, loc, type, result);
}

namespace {
struct BindDecoderInputs : heddle::impl::BindDecoderInputsBase<BindDecoderInputs> {
  void runInStage() override {
    auto graph = onlyGraph(getOperation());
    if (!graph || !graph.getBody().hasOneBlock() || !noDecoderSignature(graph).empty())
      return;
    widenActivations(graph);
    unsigned ids = 0;
    for (unsigned i = 0; i < graph.getNumArguments(); ++i)
      if (decoderInput(graph, i) == DecoderInput::InputIds)
        ids = i;
    OpBuilder b = OpBuilder::atBlockBegin(&graph.front());
    llvm::BitVector bound(graph.getNumArguments());
    for (BlockArgument argument : graph.getArguments()) {
      if (argument.getArgNumber() == ids)
        continue;
      bool counts = decoderInput(graph, argument.getArgNumber()) == DecoderInput::PositionIds;
      auto type = cast<RankedTensorType>(argument.getType());
      argument.replaceAllUsesWith(tokenGrid(b, argument.getLoc(), type, graph.getArgument(ids), counts));
      bound.set(argument.getArgNumber());
    }
    if (failed(graph.eraseArguments(bound)))
      signalPassFailure();
  }
};
} // namespace
