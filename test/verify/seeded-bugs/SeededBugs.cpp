// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes that are wrong on purpose: each makes one mistake that a real pass could make, and fails where it finds no place for
// it. `heddle verify --each-pass` must name every one of them.

#include "test/verify/seeded-bugs/Bug.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;
using namespace heddle;

// Head h of `value`, (batch, heads, sequence, head_dim), becomes head (h + 1) mod heads.
static Value rollHeads(OpBuilder &b, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  Location loc = value.getLoc();
  auto slice = [&](int64_t from, int64_t count) -> Value {
    SmallVector<OpFoldResult> offsets(4, b.getIndexAttr(0)), strides(4, b.getIndexAttr(1)), sizes;
    for (int64_t axis = 0; axis < 4; ++axis)
      sizes.push_back(tensor::getMixedSize(b, loc, value, axis));
    offsets[1] = b.getIndexAttr(from), sizes[1] = b.getIndexAttr(count);
    return tensor::ExtractSliceOp::create(b, loc, value, offsets, sizes, strides);
  };
  int64_t heads = type.getDimSize(1);
  return tensor::ConcatOp::create(b, loc, 1, ValueRange{slice(heads - 1, 1), slice(0, heads - 1)});
}

static bool rollOperand(AttentionOp op, unsigned index) {
  if (!op || cast<ShapedType>(op->getOperand(index).getType()).getDimSize(1) < 2)
    return false;
  OpBuilder b(op);
  op->setOperand(index, rollHeads(b, op->getOperand(index)));
  return true;
}

static bool setMask(AttentionOp op, bool causal, int64_t window) {
  if (op)
    op.setMaskAttr(MaskAttr::get(op.getContext(), causal, window));
  return bool(op);
}

static AttentionOp windowed(ModuleOp module) {
  return find<AttentionOp>(module, [](AttentionOp op) { return op.getMask().getWindow() > 0; });
}

static bool changeRope(RopeOp op, bool interleaved, float factor) {
  if (!op)
    return false;
  RopeAttr rope = op.getRope();
  SmallVector<float> frequencies;
  for (float frequency : rope.getInverseFrequency().asArrayRef())
    frequencies.push_back(frequency * factor);
  op.setRopeAttr(RopeAttr::get(op.getContext(), interleaved, rope.getTable(), rope.getAttentionFactor(),
                               DenseF32ArrayAttr::get(op.getContext(), frequencies)));
  return true;
}

// A residual connection: an addition whose operand is an argument of its function.
static arith::AddFOp residual(ModuleOp module) {
  return find<arith::AddFOp>(module, [](arith::AddFOp op) { return isa<BlockArgument>(op.getLhs()); });
}

static const Bug bugs[] = {
    {"bug-scale", "scores are scaled by 1 / head_dim instead of its root",
     [](ModuleOp module) {
       auto op = find<AttentionOp>(module);
       return op && setReal(op, "scale", op.getScale().convertToDouble() * op.getScale().convertToDouble());
     }},
    {"bug-window", "a window is one key too short",
     [](ModuleOp module) {
       AttentionOp op = windowed(module);
       return setMask(op, true, op ? op.getMask().getWindow() - 1 : 0);
     }},
    {"bug-window-long", "a window is one key too long",
     [](ModuleOp module) {
       AttentionOp op = windowed(module);
       return setMask(op, true, op ? op.getMask().getWindow() + 1 : 0);
     }},
    {"bug-no-window", "a window is forgotten", [](ModuleOp module) { return setMask(windowed(module), true, 0); }},
    {"bug-not-causal", "queries see later keys",
     [](ModuleOp module) { return setMask(find<AttentionOp>(module), false, 0); }},
    {"bug-softcap", "the cap of scores is lost",
     [](ModuleOp module) {
       return setReal(find<AttentionOp>(module, [](AttentionOp op) { return op.getSoftcap().convertToDouble() > 0; }),
                      "softcap", 0);
     }},
    {"bug-logit-cap", "the cap of logits is halved",
     [](ModuleOp module) {
       auto op = find<SoftcapOp>(module);
       return op && setReal(op, "cap", op.getCap().convertToDouble() / 2);
     }},
    {"bug-key-group", "query heads read the keys of the next group",
     [](ModuleOp module) { return rollOperand(find<AttentionOp>(module), 1); }},
    {"bug-value-group", "query heads read the values of the next group",
     [](ModuleOp module) { return rollOperand(find<AttentionOp>(module), 2); }},
    {"bug-query-heads", "query heads are shifted by one",
     [](ModuleOp module) { return rollOperand(find<AttentionOp>(module), 0); }},
    {"bug-rope-pairs", "halves are rotated as interleaved pairs",
     [](ModuleOp module) {
       auto op = find<RopeOp>(module);
       return changeRope(op, op && !op.getRope().getInterleaved(), 1);
     }},
    {"bug-rope-direction", "a rotation goes the other way",
     [](ModuleOp module) { return changeRope(find<RopeOp>(module), false, -1); }},
    {"bug-rope-factor", "the factor on rotated values is lost",
     [](ModuleOp module) {
       auto op =
           find<RopeOp>(module, [](RopeOp op) { return op.getRope().getAttentionFactor().getValueAsDouble() != 1; });
       if (!op)
         return false;
       RopeAttr rope = op.getRope();
       op.setRopeAttr(RopeAttr::get(op.getContext(), rope.getInterleaved(), rope.getTable(),
                                    Builder(op.getContext()).getF64FloatAttr(1), rope.getInverseFrequency()));
       return true;
     }},
    {"bug-rope-tables", "a local and a global rotation change places",
     [](ModuleOp module) {
       auto first = find<RopeOp>(module);
       auto second =
           find<RopeOp>(module, [&](RopeOp op) { return op.getRope().getTable() != first.getRope().getTable(); });
       if (!second)
         return false;
       RopeAttr rope = first.getRope();
       first.setRopeAttr(second.getRope());
       second.setRopeAttr(rope);
       return true;
     }},
    {"bug-rope-lost", "keys are rotated, queries are not",
     [](ModuleOp module) {
       auto op = find<RopeOp>(module);
       return op && replace(op, op.getInput());
     }},
    {"bug-eps", "epsilon of a norm is ten times too large",
     [](ModuleOp module) {
       auto op = find<RmsNormOp>(module);
       return op && setReal(op, "eps", op.getEps().convertToDouble() * 10);
     }},
    {"bug-eps-lost", "epsilon of a norm is lost",
     [](ModuleOp module) { return setReal(find<RmsNormOp>(module), "eps", 0); }},
    {"bug-layer-norm-eps", "epsilon of a layer norm is lost",
     [](ModuleOp module) { return setReal(find<LayerNormOp>(module), "eps", 0); }},
    {"bug-final-norm", "the norm before the head is dropped",
     [](ModuleOp module) {
       auto op = find<RmsNormOp>(module, [](RmsNormOp op) {
         return llvm::any_of(op->getUsers(), [](Operation *user) {
           return user->getParentOfType<func::FuncOp>().getName() == "forward";
         });
       });
       return op && replace(op, op.getInput());
     }},
    {"bug-norm-offset", "the 1 that is added to a norm's weights is lost",
     [](ModuleOp module) {
       return setReal(find<RmsNormOp>(module, [](RmsNormOp op) { return op.getWeightOffset().convertToDouble() != 0; }),
                      "weight_offset", 0);
     }},
    {"bug-norm-weights", "two norms of a layer swap their weights",
     [](ModuleOp module) {
       auto first = find<RmsNormOp>(module);
       auto second = find<RmsNormOp>(module, [&](RmsNormOp op) {
         return first && op != first && op.getWeight() != first.getWeight() &&
                op.getWeight().getType() == first.getWeight().getType() && op->getBlock() == first->getBlock();
       });
       if (!second)
         return false;
       Value weight = first.getWeight();
       first->setOperand(1, second.getWeight());
       second->setOperand(1, weight);
       return true;
     }},
    {"bug-bias", "the bias of a product is dropped",
     [](ModuleOp module) {
       auto op = find<LinearOp>(module, [](LinearOp op) { return !op.getBiases().empty(); });
       if (op)
         op.getBiasesMutable().clear();
       return bool(op);
     }},
    {"bug-dense-bias", "the bias of a layer behind pooling is dropped",
     [](ModuleOp module) {
       auto op = find<LinearOp>(module, [](LinearOp op) {
         return op->getParentOfType<func::FuncOp>().getSymName() == "dense" && !op.getBiases().empty();
       });
       if (op)
         op.getBiasesMutable().clear();
       return bool(op);
     }},
    {"bug-residual", "a residual connection is dropped",
     [](ModuleOp module) {
       arith::AddFOp op = residual(module);
       return op && replace(op, op.getRhs());
     }},
    {"bug-residual-twice", "a residual is added twice",
     [](ModuleOp module) {
       arith::AddFOp op = residual(module);
       if (op)
         op->setOperand(1, op.getLhs());
       return bool(op);
     }},
    {"bug-gate-up", "gate and up projection change places",
     [](ModuleOp module) { return swapOperands(find<GluOp>(module), 0, 1); }},
    {"bug-activation", "SiLU becomes GELU",
     [](ModuleOp module) {
       auto op = find<GluOp>(module, [](GluOp op) { return op.getActivation() == ActivationKind::Silu; });
       if (op)
         op.setActivation(ActivationKind::GeluTanh);
       return bool(op);
     }},
    {"bug-embedding-scale", "embeddings are not scaled",
     [](ModuleOp module) {
       return setReal(find<EmbeddingOp>(module, [](EmbeddingOp op) { return op.getScale().convertToDouble() != 1; }),
                      "scale", 1);
     }},
    {"bug-layer-skipped", "a layer is left out",
     [](ModuleOp module) {
       auto op = find<func::CallOp>(module);
       return op && op->getNumResults() == 1 && replace(op, op.getOperand(0));
     }},
    {"bug-layer-twice", "a layer runs with the weights of another",
     [](ModuleOp module) {
       SmallVector<func::CallOp> calls;
       module.walk([&](func::CallOp op) { calls.push_back(op); });
       if (calls.size() < 2 || calls[0].getOperandTypes() != calls[1].getOperandTypes())
         return false;
       for (unsigned i = 1; i < calls[0].getNumOperands(); ++i)
         calls[1]->setOperand(i, calls[0].getOperand(i));
       return true;
     }},
    {"bug-top-k", "one expert too few is asked",
     [](ModuleOp module) {
       auto op = find<MoeOp>(module);
       if (op)
         op.setTopK(op.getTopK() - 1);
       return bool(op);
     }},
    {"bug-experts", "two experts swap their down projections",
     [](ModuleOp module) {
       auto op = find<MoeOp>(module);
       unsigned first = op ? op.getDowns().getBeginOperandIndex() : 0;
       return op && swapOperands(op, first, first + 1);
     }},
    {"bug-normalize", "weights of experts are not normalised",
     [](ModuleOp module) {
       auto op = find<MoeOp>(module, [](MoeOp op) { return op.getNormalize(); });
       if (op)
         op.setNormalize(false);
       return bool(op);
     }},
    {"bug-absorbed-factor", "the absorbed key factor is of another head",
     [](ModuleOp module) {
       auto op = find<LatentAttentionOp>(module);
       unsigned first = op ? op.getKeyUps().getBeginOperandIndex() : 0;
       return op && swapOperands(op, first, first + 1);
     }},
    {"bug-absorbed-scale", "the scale of latent attention forgets the rotary part",
     [](ModuleOp module) {
       auto op = find<LatentAttentionOp>(module);
       return op && setReal(op, "scale", op.getScale().convertToDouble() * 1.125);
     }},
    {"bug-cache-swap", "keys are cached as values and values as keys",
     [](ModuleOp module) {
       return swapOperands(find<KvAppendOp>(module, [](KvAppendOp op) { return bool(op.getValue()); }), 1, 2);
     }},
    {"bug-positions", "positions are counted from the step's first row",
     [](ModuleOp module) {
       auto step = module.lookupSymbol<func::FuncOp>("step");
       if (!step)
         return false;
       OpBuilder b = OpBuilder::atBlockBegin(&step.front());
       Value positions = step.getArgument(1);
       Value count = tensor::DimOp::create(b, step.getLoc(), positions, 0);
       auto rows = tensor::GenerateOp::create(
           b, step.getLoc(), positions.getType(), count, [](OpBuilder &b, Location loc, ValueRange index) {
             tensor::YieldOp::create(b, loc, arith::IndexCastOp::create(b, loc, b.getI32Type(), index[0]));
           });
       positions.replaceAllUsesExcept(rows, count.getDefiningOp());
       return true;
     }},
    {"bug-sequences", "every row is put out that has the place of a new token in the step",
     [](ModuleOp module) {
       auto step = module.lookupSymbol<func::FuncOp>("step");
       if (!step || step.getArgument(1).getType() != step.getArgument(2).getType())
         return false;
       step.getArgument(2).replaceAllUsesWith(step.getArgument(1));
       return true;
     }},
    {"bug-memory", "two buffers that live at the same time share their place",
     [](ModuleOp module) {
       memref::AllocOp first;
       return module
           .walk([&](memref::AllocOp op) {
             // The output of a kernel lies on its input.
             if (first && first->getBlock() == op->getBlock() && llvm::any_of(first->getUsers(), [&](Operation *user) {
                   return llvm::is_contained(op->getUsers(), user) && !isa<memref::DimOp>(user);
                 })) {
               op->setAttr("heddle.row_offset", first->getAttr("heddle.row_offset"));
               return WalkResult::interrupt();
             }
             first = op;
             return WalkResult::advance();
           })
           .wasInterrupted();
     }},
    {"bug-columns", "a window of columns begins one column too early",
     [](ModuleOp module) {
       auto op = find<memref::SubViewOp>(module, [](memref::SubViewOp op) { return op.getStaticOffsets()[1] != 0; });
       if (!op)
         return false;
       OpBuilder b(op);
       SmallVector<OpFoldResult> offsets = op.getMixedOffsets();
       Value moved = arith::ConstantIndexOp::create(b, op.getLoc(), op.getStaticOffsets()[1] - 1);
       offsets[1] = moved;
       Value view =
           memref::SubViewOp::create(b, op.getLoc(), op.getSource(), offsets, op.getMixedSizes(), op.getMixedStrides());
       return replace(op, memref::CastOp::create(b, op.getLoc(), op.getType(), view));
     }},
};

namespace {

struct SeededBug : PassWrapper<SeededBug, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SeededBug)

  explicit SeededBug(const Bug &bug) : bug(&bug) {}
  StringRef getArgument() const override { return bug->name; }
  StringRef getName() const override { return bug->name; }
  StringRef getDescription() const override { return bug->what; }
  void getDependentDialects(DialectRegistry &registry) const override { registry.insert<tensor::TensorDialect>(); }

  void runOnOperation() override {
    if (bug->plant(getOperation()))
      return;
    getOperation().emitError("has no place for ") << bug->name << ": " << bug->what;
    signalPassFailure();
  }

  const Bug *bug;
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "seeded-bugs", "1", [] {
            for (llvm::ArrayRef<Bug> all : {llvm::ArrayRef<Bug>(bugs), routingAndCacheBugs()})
              for (const Bug &bug : all)
                registerPass([&bug]() -> std::unique_ptr<Pass> { return std::make_unique<SeededBug>(bug); });
          }};
}
