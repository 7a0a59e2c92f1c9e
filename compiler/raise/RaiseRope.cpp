// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Passes.h"

#include "compiler/raise/Arrange.h"
#include "compiler/raise/ElementTrace.h"
#include "compiler/raise/Remarks.h"
#include "compiler/raise/Weights.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

namespace heddle {
#define GEN_PASS_DEF_RAISEROPE
#include "compiler/raise/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// Behind those of the four dimensions of heads.
static constexpr int64_t groupSymbol = 4, memberSymbol = 5;

namespace {

// One element of a rotated head, for a fixed place d in the head.
struct Rotated {
  Expr own = nullptr, other = nullptr; // leaves: x[d], and its partner; no partner where nothing is rotated
  double cosine = 1, sine = 0;         // their factors
  Expr position = nullptr;             // the angle is position * frequency
  double frequency = 0;
  // Of the first of a pair: its partner is added and not taken off, as a rotation by the negative angle has it.
  bool turnsBack() const { return sine > 0; }
};

class RopeMatcher {
public:
  // The trace ends at `ends`.
  RopeMatcher(Value root, SmallVectorImpl<RopeAttr> &tables, ArrayRef<Value> ends)
      : root(root), tables(tables), exprs(stepsOfElement * std::max<int64_t>(shaped(root).getDimSize(3), 32)),
        trace(exprs) {
    for (Value end : ends)
      trace.stopAt(end);
  }
  bool run();

private:
  bool readAngle(Expr angle, Expr &position, double &frequency);
  std::optional<Rotated> readElement(Expr element);
  bool pairUp(ArrayRef<Rotated> elements, bool interleaved, int64_t half);
  bool findAxes(ArrayRef<Rotated> elements);
  std::optional<SmallVector<Expr>> regularIndices(ArrayRef<Rotated> elements, Expr place);
  int64_t groupSize(ArrayRef<Expr> indices, Expr head);
  bool emit(ArrayRef<Rotated> elements, bool interleaved, int64_t half);

  // Every element of a head is one question (ExprContext).
  static constexpr size_t stepsOfElement = ExprContext::manySteps / 32;

  Value root;
  SmallVectorImpl<RopeAttr> &tables;
  ExprContext exprs;
  ElementTrace trace;
  SmallVector<Expr> symbols;
  int64_t headDim = 0;
  int64_t headAxis = 0, sequenceAxis = 0;
};

} // namespace

bool RopeMatcher::readAngle(Expr angle, Expr &position, double &frequency) {
  SmallVector<std::pair<Expr, double>> terms = termsOf(angle);
  if (terms.size() != 1 || constantOf(angle) != 0 || !terms[0].first->isInteger)
    return false;
  position = terms[0].first;
  frequency = terms[0].second;
  return true;
}

std::optional<Rotated> RopeMatcher::readElement(Expr element) {
  Rotated rotated;
  if (constantOf(element) != 0)
    return std::nullopt;
  for (auto &[term, coefficient] : termsOf(element)) {
    Expr leaf = nullptr, turn = nullptr;
    for (auto &[base, exponent] : factorsOf(term)) {
      bool isTurn = base->kind == ExprKind::Call && (base->name == "cos" || base->name == "sin");
      if (exponent != 1 || (!isTurn && base->kind != ExprKind::Leaf) || (isTurn ? turn : leaf))
        return std::nullopt;
      (isTurn ? turn : leaf) = base;
    }
    if (!leaf)
      return std::nullopt;
    if (!turn) {
      if (rotated.own || coefficient != 1)
        return std::nullopt;
      rotated.own = leaf;
      continue;
    }
    Expr position;
    double frequency;
    if (!readAngle(turn->arguments[0], position, frequency))
      return std::nullopt;
    if (rotated.position && (rotated.position != position || rotated.frequency != frequency))
      return std::nullopt;
    rotated.position = position;
    rotated.frequency = frequency;
    bool isCosine = turn->name == "cos";
    if (isCosine ? rotated.own : rotated.other)
      return std::nullopt;
    (isCosine ? rotated.own : rotated.other) = leaf;
    (isCosine ? rotated.cosine : rotated.sine) = coefficient;
  }
  if (!rotated.own || bool(rotated.other) != bool(rotated.position))
    return std::nullopt;
  return rotated;
}

// Whether the first 2 * half elements are rotated in pairs of this layout, in either direction, and the others not at all.
bool RopeMatcher::pairUp(ArrayRef<Rotated> elements, bool interleaved, int64_t half) {
  for (int64_t d = 0; d < headDim; ++d) {
    const Rotated &element = elements[d];
    if (d >= 2 * half) {
      if (element.other)
        return false;
      continue;
    }
    bool isFirst = interleaved ? d % 2 == 0 : d < half;
    int64_t partner = interleaved ? d ^ 1 : isFirst ? d + half : d - half;
    double direction = elements[std::min(d, partner)].turnsBack() ? -1 : 1;
    if (!element.other || element.other != elements[partner].own || element.frequency != elements[partner].frequency ||
        element.position != elements[0].position || element.cosine != elements[0].cosine || element.cosine <= 0 ||
        element.sine != direction * (isFirst ? -element.cosine : element.cosine))
      return false;
  }
  return true;
}

// Batch comes first; the position says which of the others is the sequence.
bool RopeMatcher::findAxes(ArrayRef<Rotated> elements) {
  sequenceAxis = -1;
  for (int64_t axis : {1, 2})
    if (exprs.contains(elements[0].position, symbols[axis])) {
      if (sequenceAxis >= 0)
        return false;
      sequenceAxis = axis;
    }
  headAxis = 3 - sequenceAxis;
  return sequenceAxis > 0 && !exprs.contains(elements[0].position, symbols[headAxis]);
}

// x[..., d] as a function of d: the same source at a regular distance.
std::optional<SmallVector<Expr>> RopeMatcher::regularIndices(ArrayRef<Rotated> elements, Expr place) {
  SmallVector<Expr> indices;
  for (auto [m, base] : llvm::enumerate(elements[0].own->arguments)) {
    Expr step = headDim > 1 ? exprs.sub(elements[1].own->arguments[m], base) : exprs.constant(0);
    for (int64_t d = 0; d < headDim; ++d)
      if (elements[d].own->value != elements[0].own->value ||
          elements[d].own->arguments[m] != exprs.add(base, exprs.mul(exprs.constant(d), step)))
        return std::nullopt;
    indices.push_back(exprs.add(base, exprs.mul(place, step)));
  }
  return indices;
}

// Heads that the source has in groups: how many lie in one, or 1.
int64_t RopeMatcher::groupSize(ArrayRef<Expr> indices, Expr head) {
  if (head->kind != ExprKind::Symbol || !head->extent->isConstant())
    return 1;
  for (Expr index : indices)
    if (Expr divisor = divisorOf(index, head); divisor && std::fmod(head->extent->constant, divisor->constant) == 0)
      return (int64_t)divisor->constant;
  return 1;
}

bool RopeMatcher::emit(ArrayRef<Rotated> elements, bool interleaved, int64_t half) {
  OpBuilder b(root.getDefiningOp());
  Location loc = root.getLoc();
  Expr place = exprs.symbol(3, exprs.constant(headDim));
  std::optional<SmallVector<Expr>> regular = regularIndices(elements, place);
  // Pairs that lie side by side and come out in halves (DeepSeek-V3): rotated where they lie, put apart after.
  bool putsApart = !regular && !interleaved && 2 * half == headDim;
  SmallVector<Rotated> sideBySide(elements);
  if (putsApart) {
    for (int64_t d = 0; d < headDim; ++d)
      sideBySide[d < half ? 2 * d : 2 * (d - half) + 1] = elements[d];
    elements = sideBySide;
    interleaved = true;
    regular = regularIndices(elements, place);
  }
  if (!regular)
    return false;
  SmallVector<Expr> indices = *regular;
  auto axis = [&](int64_t d) { return Axis{symbols[d], trace.size(root, d)}; };
  Axis axes[] = {axis(0), axis(headAxis), axis(sequenceAxis), {place, exprs.constant(headDim)}};
  // One head that is repeated, as latent attention shares its key's, or each of a group whose key was repeated: rotated once, repeated after.
  Expr head = symbols[headAxis];
  bool isShared =
      head->kind == ExprKind::Symbol && llvm::none_of(indices, [&](Expr index) { return exprs.contains(index, head); });
  int64_t members = isShared ? 1 : groupSize(indices, head);
  Axis group = axes[1],
       member{exprs.symbol(memberSymbol, exprs.constant(double(members))), exprs.constant(double(members))};
  if (isShared) {
    axes[1] = {exprs.constant(0), exprs.constant(1)};
  } else if (members > 1) {
    group.extent = exprs.constant(head->extent->constant / double(members));
    group.index = exprs.symbol(groupSymbol, group.extent);
    DenseMap<Expr, Expr> apart{{head, exprs.add(exprs.mul(group.index, member.extent), member.index)}};
    for (Expr &index : indices)
      index = exprs.substitute(index, apart);
  }
  bool repeats = members > 1 && llvm::none_of(indices, [&](Expr index) { return exprs.contains(index, member.index); });
  if (repeats)
    axes[1] = group;
  std::string why;
  SmallVector<Axis> inputAxes(axes, axes + 4);
  if (members > 1 && !repeats) {
    inputAxes[1] = member;
    inputAxes.insert(inputAxes.begin() + 1, group);
  }
  Value input = arrange(b, loc, exprs, elements[0].own->value, indices, inputAxes, why);
  SmallVector<ReassociationIndices> joined{{0}, {1, 2}, {3}, {4}};
  if (input && inputAxes.size() > 4)
    input = tensor::CollapseShapeOp::create(b, loc, input, joined);
  Value positions = input ? emitIntegers(b, loc, exprs, elements[0].position, {axes[0], axes[2]}) : Value();
  if (!positions)
    return false;
  SmallVector<float> frequencies;
  for (int64_t i = 0; i < half; ++i) {
    const Rotated &first = elements[interleaved ? 2 * i : i];
    frequencies.push_back(float(first.turnsBack() ? -first.frequency : first.frequency));
  }
  // Equal rotary embeddings share a table.
  auto make = [&](int64_t table) {
    return RopeAttr::get(b.getContext(), interleaved, table, b.getF64FloatAttr(elements[0].cosine),
                         b.getDenseF32ArrayAttr(frequencies));
  };
  int64_t table = 0;
  while (table < (int64_t)tables.size() && tables[table] != make(table))
    ++table;
  if (table == (int64_t)tables.size())
    tables.push_back(make(table));
  Value result = RopeOp::create(b, loc, input.getType(), input, positions, Value(), tables[table]);
  if (putsApart) {
    Expr two = exprs.constant(2), pairs = exprs.constant(double(half));
    Axis side{exprs.symbol(memberSymbol, two), two}, pair{exprs.symbol(3, pairs), pairs};
    Axis apart[] = {axes[0], axes[1], axes[2], side, pair};
    Expr source = exprs.add(exprs.mul(pair.index, two), side.index);
    result = arrange(b, loc, exprs, result, {axes[0].index, axes[1].index, axes[2].index, source}, apart, why);
    if (!result)
      return false;
    result = tensor::CollapseShapeOp::create(b, loc, result, SmallVector<ReassociationIndices>{{0}, {1}, {2}, {3, 4}});
  }
  if (repeats) {
    Axis repeated[] = {axes[0], axes[1], member, axes[2], axes[3]};
    result = arrange(b, loc, exprs, result, {axes[0].index, axes[1].index, axes[2].index, place}, repeated, why);
    if (!result)
      return false;
    result = tensor::CollapseShapeOp::create(b, loc, result, joined);
    axes[1] = axis(headAxis);
  }
  if (isShared) {
    Axis whole[] = {axis(0), axis(1), axis(2), axes[3]};
    result = arrange(b, loc, exprs, result, {symbols[0], exprs.constant(0), symbols[sequenceAxis], place}, whole, why);
    if (result && result.getType() != root.getType())
      result = tensor::CastOp::create(b, loc, root.getType(), result);
  } else {
    SmallVector<Expr> outputs{symbols[0], symbols[1], symbols[2], place};
    result = arrangeAs(b, loc, exprs, result, axes, outputs, shaped(root), why);
  }
  if (!result)
    return false;
  root.replaceAllUsesWith(result);
  return true;
}

bool RopeMatcher::run() {
  RankedTensorType type = shaped(root);
  headDim = type.getDimSize(3);
  symbols = trace.indexSymbols(root);
  symbols.pop_back();
  SmallVector<Rotated> elements;
  for (int64_t d = 0; d < headDim; ++d) {
    SmallVector<Expr> at(symbols);
    at.push_back(exprs.constant(d));
    std::optional<Rotated> rotated = readElement(resolveElements(exprs, trace.element(root, at)));
    if (!rotated)
      return false;
    elements.push_back(*rotated);
  }
  if (!elements[0].position || !findAxes(elements))
    return false;
  int64_t rotaryDim = llvm::count_if(elements, [](const Rotated &element) { return element.other; });
  for (bool interleaved : {false, true})
    if (rotaryDim % 2 == 0 && pairUp(elements, interleaved, rotaryDim / 2))
      return emit(elements, interleaved, rotaryDim / 2);
  return false;
}

// What computes floats that are no angle: of a head that it gives, as a clipped one, it is where the rotation begins. Signs are a part of that.
static bool isEnd(Operation *op, const llvm::SetVector<Value> &turned, const llvm::SetVector<Operation *> &angles) {
  return op->getNumResults() == 1 && op->hasTrait<OpTrait::Elementwise>() &&
         isa<RankedTensorType>(op->getResult(0).getType()) && isa<FloatType>(getElementTypeOrSelf(op->getResult(0))) &&
         !turned.contains(op->getResult(0)) && !angles.contains(op) &&
         !isa<arith::NegFOp, arith::MulFOp, arith::DivFOp, arith::SelectOp, arith::ExtFOp, arith::TruncFOp,
              arith::SIToFPOp>(op);
}

// A head that is joined of what is not rotated and of the parts of a rotation, all in one: the parts are joined apart, where they are a rotation.
static bool raisePart(Value value, const llvm::SetVector<Value> &turned, SmallVectorImpl<RopeAttr> &tables,
                      ArrayRef<Value> ends) {
  auto join = value.getDefiningOp<tensor::ConcatOp>();
  if (!join || join.getDim() != 3)
    return false;
  SmallVector<Value> inputs(join.getInputs());
  auto isTurned = [&](Value input) { return turned.contains(input); };
  auto begin = llvm::find_if(inputs, isTurned), end = std::find_if_not(begin, inputs.end(), isTurned);
  if (end - begin < 2 || end - begin == (int64_t)inputs.size())
    return false;
  OpBuilder b(join);
  auto part = tensor::ConcatOp::create(b, join.getLoc(), 3, SmallVector<Value>(begin, end));
  if (part.getType().isDynamicDim(3)) {
    part.erase();
    return false;
  }
  *begin = part;
  inputs.erase(begin + 1, end);
  auto whole = tensor::ConcatOp::create(b, join.getLoc(), join.getType(), 3, inputs);
  bool isRotation = RopeMatcher(part, tables, ends).run();
  if (isRotation)
    join.replaceAllUsesWith(whole.getResult());
  else
    whole.erase();
  part.erase();
  return isRotation;
}

namespace {
struct RaiseRope : heddle::impl::RaiseRopeBase<RaiseRope> {
  void runInStage() override {
    // What depends on a sine or cosine without a product in between.
    llvm::SetVector<Value> turned;
    llvm::SetVector<Operation *> angles;
    BackwardSliceOptions options;
    options.omitBlockArguments = true;
    options.filter = [](Operation *op) { return !isa<tensor::DimOp>(op); };
    getOperation().walk([&](Operation *op) {
      if (op->getNumResults() != 1 || !isa<RankedTensorType>(op->getResult(0).getType()))
        return;
      auto embedding = dyn_cast<EmbeddingOp>(op);
      Operation *table = embedding ? embedding.getTable().getDefiningOp() : op;
      bool isTurn = isa<math::SinOp, math::CosOp>(op) || (table && table->hasAttr("heddle.frequencies"));
      op->walk([&](Operation *inner) { isTurn |= isa<math::SinOp, math::CosOp>(inner); });
      if (isTurn)
        (void)getBackwardSlice(op, &angles, options);
      bool passes = !isContraction(op) && !isa<HeddleDialect>(op->getDialect());
      if (isTurn ||
          (passes && llvm::any_of(op->getOperands(), [&](Value operand) { return turned.contains(operand); })))
        turned.insert(op->getResult(0));
    });
    SmallVector<Value> ends;
    getOperation().walk([&](Operation *op) {
      if (isEnd(op, turned, angles))
        ends.push_back(op->getResult(0));
    });
    SmallVector<RopeAttr> tables;
    DenseSet<Value> replaced;
    for (Value value : llvm::reverse(turned)) {
      auto type = shaped(value);
      bool isHeads = type.getRank() == 4 && type.getElementType().isF32() && !type.isDynamicDim(3);
      bool feedsReplaced = !value.use_empty() && llvm::all_of(value.getUsers(), [&](Operation *user) {
        return user->getNumResults() == 1 && replaced.contains(user->getResult(0));
      });
      bool isRotation = isHeads && !value.use_empty() && !feedsReplaced &&
                        (RopeMatcher(value, tables, ends).run() || raisePart(value, turned, tables, ends));
      if (feedsReplaced || isRotation)
        replaced.insert(value);
    }
    eraseDeadOps(getOperation());
    foldIdentityLayouts(getOperation());
  }
};
} // namespace
