// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Windows that overlap hold an element of the image as often as the kernel has places: a row of windows for a matmul is several times the
// image. They are written block by block instead, as many as a cache holds, and multiplied while they are there. Places of windows are
// (n, o…); blocks are cut along the last dimension but one, or along the only one behind the batch, and hold whole steps of those within. What is activated
// is so block by block.

#include "compiler/schedule/ActivationOf.h"
#include "compiler/schedule/Passes.h"

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {
#define GEN_PASS_DEF_TILEWINDOWS
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// What one step of `loop` adds to `index`, if that is the same everywhere.
static std::optional<int64_t> stepOf(AffineExpr index, unsigned loop, unsigned numLoops) {
  AffineExpr at = getAffineDimExpr(loop, index.getContext());
  auto step = dyn_cast<AffineConstantExpr>(simplifyAffineExpr(index.replace(at, at + 1) - index, numLoops, 0));
  return step ? std::optional(step.getValue()) : std::nullopt;
}

namespace {

// A `linear` that reads windows. Loops of the windows are places of a window, then elements of it.
struct WindowMatmul {
  LinearOp linear;
  linalg::GenericOp windows;
  unsigned numPlaces = 0;
  int64_t depth = 0;                            // elements of a window
  SmallVector<SmallVector<int64_t>> steps = {}; // of each index of the image along each loop
  SmallVector<int64_t> extents = {};            // of the loops, as far as known

  static std::optional<WindowMatmul> of(LinearOp linear);
  bool overlaps() const;
};

class WindowTiling {
public:
  WindowTiling(WindowMatmul given, int64_t mostElements)
      : product(std::move(given)), mostElements(mostElements), b(product.linear), loc(product.linear.getLoc()) {}
  void run();

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
  Value multiply(Value x, Value y) { return b.createOrFold<arith::MulIOp>(loc, x, y); }
  Value add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(loc, x, y); }
  Value blockSize();
  Value buildLoops(unsigned place, Value done, SmallVectorImpl<Value> &begins);
  Value buildBlock(Value done, ArrayRef<Value> begins, Value count);
  Value image(ArrayRef<Value> begins, ArrayRef<Value> counts);

  WindowMatmul product;
  int64_t mostElements;
  OpBuilder b;
  Location loc;
  ActivationKindAttr activation; // of the product, while a block is there
  unsigned cut = 0;              // the place along which blocks are cut
  SmallVector<Value> sizes;      // of places
  Value inner, block;            // windows in a step of `cut`, steps in a block
};

} // namespace

std::optional<WindowMatmul> WindowMatmul::of(LinearOp linear) {
  auto collapse = linear.getInput().getDefiningOp<tensor::CollapseShapeOp>();
  auto windows = collapse ? collapse.getSrc().getDefiningOp<linalg::GenericOp>() : linalg::GenericOp();
  if (!windows || !collapse->hasOneUse() || !windows->hasOneUse() || windows.getNumDpsInputs() != 1 ||
      windows.getNumDpsInits() != 1 || windows.getNumReductionLoops() > 0 ||
      !windows.getMatchingIndexingMap(windows.getDpsInitOperand(0)).isIdentity() ||
      !isa<RankedTensorType>(windows.getInputs()[0].getType()) ||
      cast<linalg::YieldOp>(windows.getBody()->getTerminator()).getValues()[0] != windows.getRegionInputArgs()[0])
    return std::nullopt;
  WindowMatmul product{linear, windows};
  product.numPlaces = unsigned(collapse.getReassociationIndices().back().front());
  product.depth = shaped(linear.getInput()).getShape().back();
  product.extents = windows.getStaticLoopRanges();
  if (product.numPlaces == 0 || ShapedType::isDynamic(product.depth) ||
      llvm::any_of(ArrayRef(product.extents).drop_front(product.numPlaces), ShapedType::isDynamic))
    return std::nullopt;
  for (AffineExpr index : windows.getIndexingMapsArray()[0].getResults()) {
    SmallVector<int64_t> &steps = product.steps.emplace_back();
    AffineExpr rest = index;
    for (unsigned loop = 0; loop < windows.getNumLoops(); ++loop) {
      std::optional<int64_t> step = stepOf(index, loop, windows.getNumLoops());
      if (!step || *step < 0)
        return std::nullopt;
      steps.push_back(*step);
      rest = rest - getAffineDimExpr(loop, index.getContext()) * *step;
    }
    if (simplifyAffineExpr(rest, windows.getNumLoops(), 0) != getAffineConstantExpr(0, index.getContext()))
      return std::nullopt;
  }
  return product;
}

// Whether a window reaches into the next one along some index.
bool WindowMatmul::overlaps() const {
  return llvm::any_of(steps, [&](ArrayRef<int64_t> steps) {
    int64_t stride = 0, reach = 1;
    for (auto [loop, step] : llvm::enumerate(steps))
      if (loop < numPlaces)
        stride = std::max(stride, step);
      else
        reach += step * (extents[loop] - 1);
    return stride > 0 && reach > stride;
  });
}

// How many steps of `cut` make a block: as many as its elements allow, one at least.
Value WindowTiling::blockSize() {
  Value elements = multiply(inner, index(product.depth));
  elements = b.createOrFold<arith::MaxSIOp>(loc, elements, index(1));
  Value steps = b.createOrFold<arith::DivSIOp>(loc, index(mostElements), elements);
  return b.createOrFold<arith::MaxSIOp>(loc, steps, index(1));
}

// The part of the image that `counts` windows from `begins` on see.
Value WindowTiling::image(ArrayRef<Value> begins, ArrayRef<Value> counts) {
  Value source = product.windows.getInputs()[0];
  SmallVector<OpFoldResult> offsets, lengths, strides(shaped(source).getRank(), b.getIndexAttr(1));
  for (ArrayRef<int64_t> steps : product.steps) {
    Value offset = index(0), length = index(1);
    for (auto [loop, step] : llvm::enumerate(steps)) {
      bool isPlace = loop < product.numPlaces;
      Value count = isPlace ? counts[loop] : index(product.extents[loop]);
      if (step && isPlace)
        offset = add(offset, multiply(begins[loop], index(step)));
      if (step)
        length = add(length, multiply(add(count, index(-1)), index(step)));
    }
    offsets.push_back(getAsOpFoldResult(offset));
    lengths.push_back(getAsOpFoldResult(length));
  }
  return tensor::ExtractSliceOp::create(b, loc, source, offsets, lengths, strides);
}

// Rows of `done`, the product's (windows, n), for `count` steps of `cut`, one of those around it.
Value WindowTiling::buildBlock(Value done, ArrayRef<Value> begins, Value count) {
  linalg::GenericOp windows = product.windows;
  SmallVector<Value> counts(product.numPlaces), firsts(product.numPlaces);
  Value row = index(0);
  for (unsigned place = 0; place < product.numPlaces; ++place) {
    counts[place] = place < cut ? index(1) : place == cut ? count : sizes[place];
    firsts[place] = place <= cut ? begins[place] : index(0);
    row = add(multiply(row, sizes[place]), firsts[place]);
  }
  SmallVector<OpFoldResult> blockSizes = getAsOpFoldResult(counts);
  for (int64_t extent : ArrayRef(product.extents).drop_front(product.numPlaces))
    blockSizes.push_back(b.getIndexAttr(extent));
  Value room = tensor::EmptyOp::create(b, loc, blockSizes, shaped(done).getElementType());
  auto gather = linalg::GenericOp::create(
      b, windows.getLoc(), room.getType(), image(firsts, counts), room, windows.getIndexingMapsArray(),
      windows.getIteratorTypesArray(),
      [](OpBuilder &b, Location loc, ValueRange elements) { linalg::YieldOp::create(b, loc, elements[0]); });
  SmallVector<ReassociationIndices> groups = {
      llvm::to_vector(llvm::seq<int64_t>(0, product.numPlaces)),
      llvm::to_vector(llvm::seq<int64_t>(product.numPlaces, windows.getNumLoops()))};
  Value rows = tensor::CollapseShapeOp::create(b, loc, gather.getResult(0), groups);
  LinearOp linear = product.linear;
  int64_t width = shaped(done).getDimSize(1), numRows = shaped(rows).getDimSize(0);
  Value result =
      LinearOp::create(b, loc, shaped(done).clone({numRows, width}), rows, linear.getWeights(), linear.getBiases());
  if (activation)
    result = GluOp::create(b, loc, result.getType(), result, /*up=*/Value(), activation);
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
  SmallVector<OpFoldResult> offsets = {getAsOpFoldResult(row), zero},
                            lengths = {getAsOpFoldResult(multiply(count, inner)), b.getIndexAttr(width)},
                            strides = {one, one};
  return tensor::InsertSliceOp::create(b, loc, result, done, offsets, lengths, strides);
}

// The loops from `place` on: step by step, block by block along `cut`.
Value WindowTiling::buildLoops(unsigned place, Value done, SmallVectorImpl<Value> &begins) {
  auto loop = scf::ForOp::create(b, loc, index(0), sizes[place], place == cut ? block : index(1), done);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  begins.push_back(loop.getInductionVar());
  Value part = loop.getRegionIterArgs()[0];
  if (place == cut) {
    Value rest = b.createOrFold<arith::SubIOp>(loc, sizes[cut], begins.back());
    part = buildBlock(part, begins, b.createOrFold<arith::MinSIOp>(loc, block, rest));
  } else {
    part = buildLoops(place + 1, part, begins);
  }
  scf::YieldOp::create(b, loc, part);
  begins.pop_back();
  return loop.getResult(0);
}

void WindowTiling::run() {
  unsigned numPlaces = product.numPlaces;
  cut = numPlaces <= 2 ? numPlaces - 1 : numPlaces - 2;
  Value places = product.windows.getDpsInits()[0], total = index(1);
  inner = index(1);
  for (unsigned place = 0; place < numPlaces; ++place) {
    sizes.push_back(getValueOrCreateConstantIndexOp(b, loc, tensor::getMixedSize(b, loc, places, place)));
    total = multiply(total, sizes[place]);
    if (place > cut)
      inner = multiply(inner, sizes[place]);
  }
  block = blockSize();
  LinearOp linear = product.linear;
  if (GluOp glu = activationOf(linear))
    activation = takeActivation(glu);
  auto type = shaped(linear.getResult());
  SmallVector<OpFoldResult> rowSizes = {getAsOpFoldResult(total), b.getIndexAttr(type.getShape().back())};
  SmallVector<OpFoldResult> outSizes = tensor::getMixedSizes(b, loc, linear.getInput());
  outSizes.back() = rowSizes.back();
  Value done = tensor::EmptyOp::create(b, loc, rowSizes, type.getElementType());
  SmallVector<Value> begins;
  Value result = buildLoops(0, done, begins);
  if (type.getRank() != 2) {
    ReassociationIndices rows = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1));
    result = tensor::ExpandShapeOp::create(b, loc, type, result,
                                           ArrayRef<ReassociationIndices>{rows, {type.getRank() - 1}}, outSizes);
  }
  if (result.getType() != type)
    result = tensor::CastOp::create(b, loc, type, result);
  linear.getResult().replaceAllUsesWith(result);
  linear.erase();
}

namespace {
struct TileWindows : heddle::impl::TileWindowsBase<TileWindows> {
  using TileWindowsBase::TileWindowsBase;
  void runInStage() override {
    SmallVector<LinearOp> linears;
    getOperation().walk([&](LinearOp op) { linears.push_back(op); });
    for (LinearOp op : linears) {
      std::optional<WindowMatmul> product = WindowMatmul::of(op);
      if (!product || !product->overlaps())
        continue;
      int64_t elements = 1;
      for (int64_t extent : product->extents)
        elements = ShapedType::isDynamic(extent) || elements > mostElements ? mostElements + 1 : elements * extent;
      if (elements > mostElements)
        WindowTiling(*product, mostElements).run();
    }
  }
};
} // namespace
