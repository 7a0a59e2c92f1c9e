// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/verify/seeded-bugs/Bug.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

// Of the first mixture that states one.
static bool changeRouting(ModuleOp module, llvm::function_ref<RoutingAttr(RoutingAttr)> change) {
  auto op = find<MoeOp>(module, [](MoeOp op) { return bool(op.getRoutingAttr()); });
  if (op)
    op.setRoutingAttr(change(op.getRoutingAttr()));
  return bool(op);
}

// An operand of the first op that has it.
template <typename Op> static bool forget(ModuleOp module, MutableOperandRange (Op::*operand)()) {
  auto op = find<Op>(module, [&](Op op) { return !(op.*operand)().empty(); });
  if (op)
    (op.*operand)().clear();
  return bool(op);
}

static FloatAttr real(MLIRContext *context, double value) {
  return Builder(context).getF64FloatAttr(value);
}

static const Bug bugs[] = {
    {"bug-routing-scale", "weights of experts are not scaled",
     [](ModuleOp module) {
       return changeRouting(module, [](RoutingAttr routing) {
         return RoutingAttr::get(routing.getContext(), routing.getSigmoid(), routing.getNumGroups(),
                                 routing.getTopGroups(), real(routing.getContext(), 1), routing.getCapacity(),
                                 routing.getJitter());
       });
     }},
    {"bug-groups", "experts are chosen from all groups",
     [](ModuleOp module) {
       return changeRouting(module, [](RoutingAttr routing) {
         return RoutingAttr::get(routing.getContext(), routing.getSigmoid(), 1, 1,
                                 real(routing.getContext(), routing.getScaleValue()), routing.getCapacity(),
                                 routing.getJitter());
       });
     }},
    {"bug-correction", "the correction of scores is forgotten",
     [](ModuleOp module) { return forget(module, &MoeOp::getCorrectionMutable); }},
    {"bug-expert-scales", "an expert's own number does not multiply its weight",
     [](ModuleOp module) { return forget(module, &MoeOp::getScalesMutable); }},
    {"bug-router-input", "a router reads what its experts do",
     [](ModuleOp module) { return forget(module, &MoeOp::getRouterInputMutable); }},
    {"bug-shared-expert", "the expert that every token passes is forgotten",
     [](ModuleOp module) {
       auto op = find<arith::AddFOp>(module, [](arith::AddFOp op) {
         return op.getLhs().getDefiningOp<MoeOp>() && op.getRhs().getDefiningOp<LinearOp>();
       });
       return op && replace(op, op.getLhs());
     }},
    {"bug-expert-halves", "gate and up projection of an expert change places",
     [](ModuleOp module) {
       auto op = find<MoeOp>(module);
       return op && swapOperands(op, op.getGates().getBeginOperandIndex(), op.getUps().getBeginOperandIndex());
     }},
    {"bug-rope-offset", "a rotation begins at the wrong part of a head",
     [](ModuleOp module) {
       auto op = find<RopeOp>(module, [](RopeOp op) { return op.getOffset() != 0; });
       if (op)
         op.setOffset(0);
       return bool(op);
     }},
    {"bug-learned-positions", "the table of positions is looked up by token",
     [](ModuleOp module) {
       auto forward = module.lookupSymbol<func::FuncOp>("forward");
       auto op = find<EmbeddingOp>(module, [&](EmbeddingOp op) { return op.getIds() == forward.getArgument(1); });
       if (op)
         op->setOperand(0, forward.getArgument(0));
       return bool(op);
     }},
    {"bug-cache-layer", "two layers keep their keys in one place",
     [](ModuleOp module) {
       SmallVector<func::CallOp> calls;
       module.walk([&](func::CallOp op) { calls.push_back(op); });
       for (unsigned i = 0; calls.size() > 1 && i < calls[0].getNumOperands(); ++i)
         if (calls[0].getOperand(i).getType().isIndex()) {
           calls[1]->setOperand(i, calls[0].getOperand(i));
           return true;
         }
       return false;
     }},
    {"bug-decay", "a state does not decay",
     [](ModuleOp module) { return forget(module, &LinearAttentionOp::getDecayMutable); }},
    {"bug-delta-rule", "what a state has for a key is not taken off",
     [](ModuleOp module) { return forget(module, &LinearAttentionOp::getBetaMutable); }},
    {"bug-taps", "the activation behind a convolution is lost",
     [](ModuleOp module) {
       auto op = find<CausalConvOp>(module, [](CausalConvOp op) { return bool(op.getActivationAttr()); });
       if (op)
         op.removeActivationAttr();
       return bool(op);
     }},
    {"bug-state-parts", "two ops of a layer keep their states in one place",
     [](ModuleOp module) {
       auto op = find<LinearAttentionOp>(module, [](LinearAttentionOp op) { return op.getOffset() != 0; });
       if (op)
         op.setOffset(0);
       return bool(op);
     }},
    {"bug-kv-windows", "layers that see all tokens are said to have a window",
     [](ModuleOp module) {
       auto windows = module->getAttrOfType<DenseI64ArrayAttr>("heddle.kv_windows");
       if (!windows || !llvm::is_contained(windows.asArrayRef(), 0))
         return false;
       SmallVector<int64_t> all(windows.size(), *llvm::max_element(windows.asArrayRef()));
       module->setAttr("heddle.kv_windows", DenseI64ArrayAttr::get(module.getContext(), all));
       return true;
     }},
    {"bug-projections", "keys and values are taken from each other's columns of a fused product",
     [](ModuleOp module) {
       SmallVector<tensor::ExtractSliceOp> parts;
       module.walk([&](tensor::ExtractSliceOp op) { parts.push_back(op); });
       for (tensor::ExtractSliceOp first : parts)
         for (tensor::ExtractSliceOp second : parts)
           if (first != second && first.getSource() == second.getSource() && first.getType() == second.getType()) {
             SmallVector<int64_t> offsets(first.getStaticOffsets());
             first.setStaticOffsets(second.getStaticOffsets());
             second.setStaticOffsets(offsets);
             return true;
           }
       return false;
     }},
    {"bug-bf16", "a gated product is rounded to bf16",
     [](ModuleOp module) {
       auto op = find<GluOp>(module);
       if (!op)
         return false;
       OpBuilder b(op->getContext());
       b.setInsertionPointAfter(op);
       auto narrow = arith::TruncFOp::create(
           b, op.getLoc(), cast<RankedTensorType>(op.getType()).clone(b.getBF16Type()), op.getResult());
       auto wide = arith::ExtFOp::create(b, op.getLoc(), op.getType(), narrow.getResult());
       op.getResult().replaceAllUsesExcept(wide.getResult(), narrow);
       return true;
     }},
};

llvm::ArrayRef<Bug> heddle::routingAndCacheBugs() {
  return bugs;
}
