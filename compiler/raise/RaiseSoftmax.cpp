// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A softmax is what it computes: weights divided by their sum, where a weight is the exponential of a score, whatever is taken off all
// scores of a row, or 0 where a mask hides. What is divided may be a matmul of the weights, and the sum may have one more weight, a sink.

#include "compiler/raise/Passes.h"

#include "compiler/raise/Remarks.h"
#include "compiler/raise/SoftmaxRaiser.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace heddle {
#define GEN_PASS_DEF_RAISESOFTMAX
#include "compiler/raise/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;
// What an op takes the exponential of: exp, exp2, or the power of one positive number. Null for any other op.
static Value exponentOf(Operation *op) {
  if (isa<math::ExpOp, math::Exp2Op>(op))
    return op->getOperand(0);
  auto power = dyn_cast<math::PowFOp>(op);
  if (!power || !isa<RankedTensorType>(power.getType()))
    return {};
  ExprContext exprs;
  ElementTrace trace(exprs);
  Expr base = trace.element(power.getLhs(), trace.indexSymbols(power.getLhs()));
  return base->isConstant() && base->constant > 0 ? power.getRhs() : Value();
}

// Replaces what the root computes by a softmax, if it is one. The exp ops nearest behind it are tried, and for each what it reads before
// anything was taken off. `reasons` gets for each of them why it is none.
static void raise(Operation *root, DenseMap<Operation *, std::string> &reasons) {
  SmallVector<std::pair<Value, bool>> work{{root->getResult(0), false}}; // and whether a product lies between
  SmallVector<Operation *> exponentials;
  std::string reason;
  bool isDivided = false;
  for (size_t next = 0; next < work.size() && work.size() < 32; ++next) {
    auto [value, isWeighed] = work[next];
    Operation *op = value.getDefiningOp();
    if (!op || !isa<RankedTensorType>(value.getType()) || (isContraction(op) && isWeighed) ||
        isa<HeddleDialect>(op->getDialect()))
      continue;
    Value exponent = exponentOf(op);
    if (!exponent) {
      for (Value operand : op->getOperands())
        work.push_back({operand, isWeighed || isContraction(op)});
      continue;
    }
    if (llvm::is_contained(exponentials, op))
      continue;
    exponentials.push_back(op);
    for (Value input : candidateScores(exponent)) {
      SoftmaxRaiser raiser(root, input);
      if (raiser.run())
        return;
      if (reason.empty())
        reason = raiser.whyNot();
      isDivided |= raiser.isDivided();
    }
  }
  if (reason.empty() && isDivided)
    reason = "their sum divides them, but what they are the exponentials of is no tensor of its own";
  for (Operation *op : exponentials)
    if (!reason.empty())
      reasons[op] = reason;
}

// A product of which every element, or every last one of a row, is a sum of its other operand: one of them is ones, or ends in them.
static bool isSumByOnes(Operation *op) {
  if (!isContraction(op))
    return false;
  ExprContext exprs;
  ElementTrace trace(exprs);
  SmallVector<Expr> last;
  for (int64_t d = 0; d < cast<RankedTensorType>(op->getResult(0).getType()).getRank(); ++d)
    last.push_back(exprs.sub(trace.size(op->getResult(0), d), exprs.constant(1)));
  return trace.element(op->getResult(0), last)->kind != ExprKind::Leaf;
}

// The op that adds up what `user` reads: a reduction, a product with ones, or a loop. Null for any other.
static Operation *summing(Operation *user) {
  if (auto loops = dyn_cast<linalg::LinalgOp>(user))
    return loops.getNumReductionLoops() > 0 && (!isContraction(user) || isSumByOnes(user)) ? user : nullptr;
  bool isAdded = isa<tensor::ExtractOp>(user) && llvm::any_of(user->getUsers(), llvm::IsaPred<arith::AddFOp>);
  Operation *loop = isAdded ? user->getParentOfType<scf::ForOp>() : nullptr;
  while (loop && loop->getParentOfType<scf::ForOp>())
    loop = loop->getParentOfType<scf::ForOp>();
  return loop;
}

// The sum that reads the result, at once or through ops on elements; null if none does.
static Operation *sumOf(Operation *op) {
  SmallVector<Operation *> work{op};
  for (size_t next = 0; next < work.size() && work.size() < 16; ++next)
    for (Operation *user : work[next]->getUsers()) {
      if (Operation *sum = summing(user))
        return sum;
      if (!isa<linalg::LinalgOp>(user) && user->hasTrait<OpTrait::Elementwise>())
        work.push_back(user);
    }
  return nullptr;
}

// What becomes of a sum, by the first op that does more than move it, where no quotient is found.
static std::string fateOf(Operation *sum) {
  if (isa<scf::ForOp>(sum))
    return describe(sum) + " adds them up one after the other, and is no sum over an axis";
  std::string fate = "no division of them by their sum is found";
  SmallVector<Operation *> work{sum};
  for (size_t next = 0; next < work.size() && work.size() < 16; ++next)
    for (Operation *user : work[next]->getUsers()) {
      if (isa<tensor::DimOp>(user))
        continue;
      if (user->getNumResults() != 1 || user->hasTrait<OpTrait::Elementwise>() || isContraction(user))
        return fate + "; " + describe(user) + " reads it";
      work.push_back(user);
    }
  return fate;
}

namespace {
struct RaiseSoftmax : heddle::impl::RaiseSoftmaxBase<RaiseSoftmax> {
  void runInStage() override {
    SmallVector<Operation *> roots;
    getOperation().walk([&](Operation *op) {
      if (!isa<arith::DivFOp, arith::MulFOp, arith::SelectOp>(op) && !exponentOf(op))
        return;
      auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
      if (type && isa<FloatType>(type.getElementType()))
        roots.push_back(op);
    });
    DenseMap<Operation *, std::string> reasons;
    for (Operation *root : llvm::reverse(roots))
      if (!root->use_empty())
        raise(root, reasons);
    eraseDeadOps(getOperation());
    getOperation().walk([&](Operation *op) {
      Operation *sum = exponentOf(op) && isa<RankedTensorType>(op->getResult(0).getType()) ? sumOf(op) : nullptr;
      if (!sum)
        return;
      std::string reason = reasons.lookup(op);
      op->emitRemark("exponentials and their sum are no softmax, and what they weigh no attention: ")
          << (reason.empty() || isa<scf::ForOp>(sum) ? fateOf(sum) : reason);
    });
  }
};
} // namespace
