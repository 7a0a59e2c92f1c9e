// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives matrices of products, experts and embeddings another type than their file's. Only types and storages change here; packing reads the
// file and converts. A weight reaches its readers through calls of layer functions, so what may change is decided for all values that a call
// makes one: either all of them take the type or none does.

#include "compiler/raise/Passes.h"
#include "dialect/Codes.h"
#include "frontends/Checkpoint.h"

namespace heddle {
#define GEN_PASS_DEF_QUANTIZEWEIGHTS
#include "compiler/raise/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// Whether `operand` is a matrix of weights to an op that has kernels for every type of them. A router is none: a small error there chooses
// another expert.
static bool isMatrixOperand(OpOperand &operand) {
  auto isOneOf = [&](auto range) { return llvm::is_contained(range, operand.get()); };
  Operation *op = operand.getOwner();
  if (auto linear = dyn_cast<LinearOp>(op))
    return isOneOf(linear.getWeights());
  if (auto embedding = dyn_cast<EmbeddingOp>(op))
    return operand.get() == embedding.getTable();
  if (auto moe = dyn_cast<MoeOp>(op))
    return operand.get() != moe.getRouter() &&
           (isOneOf(moe.getGates()) || isOneOf(moe.getUps()) || isOneOf(moe.getDowns()));
  return false;
}

// Bits of a number, with its part of the block's scales.
static double bitsOf(heddle::TensorType type) {
  const TensorTypeInfo &info = tensorTypeInfo(type);
  return 8.0 * info.blockBytes / info.blockValues;
}

namespace {

class WeightQuantizer {
public:
  WeightQuantizer(ModuleOp module, heddle::TensorType type) : module(module), type(type) {}
  void run();

private:
  // The argument of a layer function that a call passes a matrix to.
  struct Passed {
    Value matrix;
    BlockArgument argument;
  };

  void findPassed();
  void keepWhatOthersRead(Value value);
  // Why a matrix keeps its type; "" where it changes.
  std::string reasonToStay(WeightOp op) const;
  void convert(Value value);

  ModuleOp module;
  heddle::TensorType type;
  SmallVector<Passed> passed;
  SetVector<Value> matrices; // weights and arguments that they are passed to
  DenseSet<Value> kept;
};

} // namespace

void WeightQuantizer::findPassed() {
  module.walk([&](func::CallOp call) {
    auto func = module.lookupSymbol<func::FuncOp>(call.getCallee());
    for (auto [i, operand] : llvm::enumerate(call.getOperands()))
      if (matrices.contains(operand) && func && func.isPrivate() && !func.isExternal())
        passed.push_back({operand, func.getArgument(i)});
  });
  for (const Passed &one : passed)
    matrices.insert(one.argument);
}

void WeightQuantizer::keepWhatOthersRead(Value value) {
  bool isRead = llvm::all_of(value.getUses(), [&](OpOperand &use) {
    return isMatrixOperand(use) || llvm::any_of(passed, [&](const Passed &one) {
             auto call = dyn_cast<func::CallOp>(use.getOwner());
             return call && one.matrix == value;
           });
  });
  if (!isRead)
    kept.insert(value);
}

std::string WeightQuantizer::reasonToStay(WeightOp op) const {
  StorageAttr storage = op.getStorage();
  std::optional<heddle::TensorType> stored = tensorTypeNamed(storage.getType().getValue());
  const TensorTypeInfo &wanted = tensorTypeInfo(type);
  int64_t k = typeOf(op).getDimSize(1);
  if (op->hasAttr(keepsTypeAttr))
    return "it belongs to an adapter";
  if (!stored || storage.getFileType() || op->hasAttr(Codes::attrName))
    return "its scales lie elsewhere";
  bool isQuantized = tensorTypeInfo(*stored).blockValues > 1;
  if (stored == type || bitsOf(*stored) < bitsOf(type) || (isQuantized && bitsOf(*stored) == bitsOf(type)))
    return "it is no larger than " + std::string(wanted.name);
  if (isQuantized && storage.getTransposed())
    return "its blocks lie across its rows";
  if (k % wanted.blockValues)
    return "its in_features (" + std::to_string(k) + ") are no multiple of a block of " + wanted.name + " (" +
           std::to_string(wanted.blockValues) + ")";
  return "";
}

void WeightQuantizer::convert(Value value) {
  MLIRContext *context = module.getContext();
  Builder b(context);
  Type element = type == heddle::TensorType::F16    ? Type(b.getF16Type())
                 : type == heddle::TensorType::BF16 ? Type(b.getBF16Type())
                                                    : Type(b.getF32Type());
  const char *name = tensorTypeInfo(type).name;
  Attribute encoding;
  if (auto kind = symbolizeQuantKind(name))
    encoding = QuantKindAttr::get(context, *kind);
  value.setType(RankedTensorType::get(typeOf(value).getShape(), element, encoding));
  if (auto op = value.getDefiningOp<WeightOp>()) {
    StorageAttr storage = op.getStorage();
    op.setStorageAttr(StorageAttr::get(context, b.getStringAttr(name), storage.getFile(), storage.getOffset(),
                                       storage.getTransposed(), storage.getStride(), storage.getType(),
                                       /*acrossRows=*/storage.getTransposed(), storage.getTaps()));
  }
}

void WeightQuantizer::run() {
  module.walk([&](WeightOp op) {
    auto type = cast<RankedTensorType>(op.getType());
    if (op.getStorage() && type.getRank() == 2 && isa<FloatType>(type.getElementType()) && !op->use_empty())
      matrices.insert(op.getResult());
  });
  findPassed();
  for (Value value : matrices)
    keepWhatOthersRead(value);
  auto spread = [&] {
    for (bool changes = true; changes;) {
      changes = false;
      for (const Passed &one : passed)
        if (kept.contains(one.matrix) != kept.contains(one.argument))
          changes = kept.insert(one.matrix).second | kept.insert(one.argument).second;
    }
  };
  spread();
  for (Value value : matrices)
    if (auto op = value.getDefiningOp<WeightOp>(); op && !kept.contains(value))
      if (std::string reason = reasonToStay(op); !reason.empty()) {
        kept.insert(value);
        op.emitRemark("'") << op.getName() << "' stays " << op.getStorage().getType().getValue() << ": " << reason;
      }
  spread();
  for (Value value : matrices)
    if (!kept.contains(value))
      convert(value);
  for (auto func : module.getOps<func::FuncOp>())
    if (!func.isExternal())
      func.setType(FunctionType::get(module.getContext(), func.front().getArgumentTypes(), func.getResultTypes()));
}

namespace {
struct QuantizeWeights : heddle::impl::QuantizeWeightsBase<QuantizeWeights> {
  using QuantizeWeightsBase::QuantizeWeightsBase;
  void runInStage() override {
    std::optional<heddle::TensorType> wanted = tensorTypeNamed(type);
    if (!wanted)
      return (void)(getOperation().emitError("type '") << type << "' is no type of weights"), signalPassFailure();
    WeightQuantizer(getOperation(), *wanted).run();
  }
};
} // namespace
