// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// rope(heads of columns [a, b)) and rope(heads of columns [b, c)) are columns of rope(heads of columns [a, c)): a head rotates by itself.

#include "compiler/schedule/JoinRotations.h"

#include "compiler/schedule/ScheduleTable.h"
#include "dialect/HeddleDialect.h"
#include "dialect/Locations.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

namespace {

// A rope between rows and rows: columns [begin, begin + width) of `source`, as heads, rotated, and as rows again.
struct Rotation {
  RopeOp rope;
  Value source;
  int64_t begin, width;
  SmallVector<tensor::CollapseShapeOp> rows;
};

} // namespace

static const SmallVector<ReassociationIndices> headGroups = {{0, 1}, {2, 3}};
static const int64_t swapsHeads[] = {0, 2, 1, 3};

static bool swaps(linalg::TransposeOp op) {
  return op && op.getPermutation() == ArrayRef<int64_t>(swapsHeads);
}

static FailureOr<Rotation> rotationOf(RopeOp rope) {
  auto heads = rope.getInput().getDefiningOp<linalg::TransposeOp>();
  auto expand = swaps(heads) ? heads.getInput().getDefiningOp<tensor::ExpandShapeOp>() : tensor::ExpandShapeOp();
  auto part = expand && expand.getReassociationIndices() == headGroups
                  ? expand.getSrc().getDefiningOp<tensor::ExtractSliceOp>()
                  : tensor::ExtractSliceOp();
  if (!part || part.getSourceType().getRank() != 2 || part.getType().getRank() != 2 || !part.hasUnitStride() ||
      part.getStaticOffset(0) != 0 || part.isDynamicOffset(1) || part.isDynamicSize(1))
    return failure();
  Rotation rotation{rope, part.getSource(), part.getStaticOffset(1), part.getStaticSize(1), {}};
  for (Operation *user : rope->getUsers()) {
    auto back = dyn_cast<linalg::TransposeOp>(user);
    if (!swaps(back) || back.getInput() != rope.getResult())
      return failure();
    for (Operation *reader : back->getUsers()) {
      auto rows = dyn_cast<tensor::CollapseShapeOp>(reader);
      if (!rows || rows.getReassociationIndices() != headGroups)
        return failure();
      rotation.rows.push_back(rows);
    }
  }
  return rotation;
}

static bool areNeighbours(const Rotation &first, const Rotation &second) {
  RopeOp a = first.rope, b = second.rope;
  return first.source == second.source && first.begin + first.width == second.begin &&
         a.getPositions() == b.getPositions() && a.getTable() == b.getTable() && a.getRope() == b.getRope() &&
         a.getOffset() == b.getOffset() && a.getType().getDimSize(3) == b.getType().getDimSize(3);
}

static Value swapHeads(OpBuilder &b, Location loc, Value value, Value rows, bool toHeads) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape = {1, type.getDimSize(2), type.getDimSize(1), type.getDimSize(3)};
  SmallVector<OpFoldResult> sizes;
  for (auto [axis, size] : llvm::enumerate(shape))
    sizes.push_back(int64_t(axis) == (toHeads ? 2 : 1) ? OpFoldResult(rows) : OpFoldResult(b.getIndexAttr(size)));
  Value room = tensor::EmptyOp::create(b, loc, sizes, type.getElementType());
  return linalg::TransposeOp::create(b, loc, value, room, ArrayRef<int64_t>(swapsHeads)).getResult()[0];
}

// Placed at the first of the two in the block.
static void join(const Rotation &first, const Rotation &second) {
  RopeOp like = first.rope;
  OpBuilder b(like->isBeforeInBlock(second.rope) ? like : second.rope);
  Location loc = mergedLocation(b.getContext(), {like.getLoc(), RopeOp(second.rope).getLoc()});
  int64_t width = first.width + second.width, headDim = like.getType().getDimSize(3);
  Type element = like.getType().getElementType();
  Value rows = tensor::DimOp::create(b, loc, first.source, 0);
  auto columns = [&](Value of, int64_t begin, int64_t count) {
    SmallVector<OpFoldResult> offsets = {b.getIndexAttr(0), b.getIndexAttr(begin)},
                              sizes = {rows, b.getIndexAttr(count)}, strides(2, b.getIndexAttr(1));
    auto type = RankedTensorType::get({ShapedType::kDynamic, count}, element);
    return tensor::ExtractSliceOp::create(b, loc, type, of, offsets, sizes, strides).getResult();
  };
  auto type = RankedTensorType::get({1, ShapedType::kDynamic, width / headDim, headDim}, element);
  SmallVector<OpFoldResult> sizes = {b.getIndexAttr(1), rows, b.getIndexAttr(width / headDim), b.getIndexAttr(headDim)};
  Value heads =
      tensor::ExpandShapeOp::create(b, loc, type, columns(first.source, first.begin, width), headGroups, sizes);
  heads = swapHeads(b, loc, heads, rows, /*toHeads=*/true);
  Value rotated = RopeOp::create(b, loc, heads.getType(), heads, like.getPositions(), like.getTable(), like.getRope(),
                                 like.getOffset());
  rotated = swapHeads(b, loc, rotated, rows, /*toHeads=*/false);
  rotated = tensor::CollapseShapeOp::create(b, loc, RankedTensorType::get({ShapedType::kDynamic, width}, element),
                                            rotated, headGroups);
  int64_t begin = 0;
  for (const Rotation *part : {&first, &second}) {
    Value its = columns(rotated, begin, part->width);
    begin += part->width;
    for (tensor::CollapseShapeOp old : part->rows) {
      old.getResult().replaceAllUsesWith(its);
      old->erase();
    }
  }
  for (RopeOp old : {first.rope, second.rope}) {
    for (Operation *back : llvm::make_early_inc_range(old->getUsers())) // which nothing reads any more
      back->erase();
    old->erase();
  }
}

static bool joinOne(Block &block) {
  SmallVector<Rotation> rotations;
  for (auto rope : block.getOps<RopeOp>())
    if (FailureOr<Rotation> rotation = rotationOf(rope); succeeded(rotation))
      rotations.push_back(*rotation);
  for (const Rotation &first : rotations)
    for (const Rotation &second : rotations)
      if (areNeighbours(first, second)) {
        join(first, second);
        return true;
      }
  return false;
}

void heddle::joinRotations(Block &block) {
  while (joinOne(block)) {
  }
}

// Columns [begin, begin + width) of every row of `source`.
static bool isColumns(tensor::ExtractSliceOp slice, Value source, int64_t begin, int64_t width) {
  return slice && slice.getSource() == source && slice.getSourceType().getRank() == 2 &&
         slice.getType().getRank() == 2 && slice.hasUnitStride() &&
         slice.getStaticOffsets() == ArrayRef<int64_t>({0, begin}) && slice.getStaticSizes()[1] == width;
}

// The rotation that leaves rows of which `append` stores the last columns as keys, and whose source has the values behind what is rotated.
static FailureOr<Rotation> rotationBefore(KvAppendOp append) {
  KvCacheType cache = append.getCache().getType();
  int64_t width = cache.getNumKvHeads() * cache.getHeadDim();
  if (cache.getCross() || cache.isLatent())
    return failure();
  auto key = append.getKey().getDefiningOp<tensor::ExtractSliceOp>();
  auto rows =
      key && key->hasOneUse() ? key.getSource().getDefiningOp<tensor::CollapseShapeOp>() : tensor::CollapseShapeOp();
  auto back = rows ? rows.getSrc().getDefiningOp<linalg::TransposeOp>() : linalg::TransposeOp();
  auto rope = back ? back.getInput().getDefiningOp<RopeOp>() : RopeOp();
  FailureOr<Rotation> rotation = failure();
  if (rope)
    rotation = rotationOf(rope);
  if (failed(rotation) || rotation->begin != 0 || rotation->rows.size() != 1 || rotation->rows.front() != rows ||
      !rope.getTable() || !rope.getPositions().getDefiningOp<tensor::ExpandShapeOp>() ||
      rope.getType().getDimSize(3) != cache.getHeadDim())
    return failure();
  int64_t queries = rotation->width - width;
  auto value = append.getValue().getDefiningOp<tensor::ExtractSliceOp>();
  if (queries <= 0 || !isColumns(key, rows, queries, width) ||
      !isColumns(value, rotation->source, rotation->width, width) ||
      cast<RankedTensorType>(rotation->source.getType()).getDimSize(1) != rotation->width + width)
    return failure();
  Block *block = append->getBlock();
  for (Operation *user : rows->getUsers()) {
    auto query = dyn_cast<tensor::ExtractSliceOp>(user);
    if (user == key || isa<tensor::DimOp>(user))
      continue;
    if (!isColumns(query, rows, 0, queries))
      return failure();
    for (Operation *reader : query->getUsers())
      if (block->findAncestorOpInBlock(*reader)->isBeforeInBlock(append))
        return failure();
  }
  return rotation;
}

static void fuse(KvAppendOp append, const Rotation &rotation) {
  OpBuilder b(append);
  RopeOp rope = rotation.rope;
  tensor::CollapseShapeOp rows = rotation.rows.front();
  KvCacheType cache = append.getCache().getType();
  Location loc = mergedLocation(b.getContext(), {rope.getLoc(), append.getLoc()});
  int64_t width = rotation.width - cache.getNumKvHeads() * cache.getHeadDim();
  Value positions = rope.getPositions().getDefiningOp<tensor::ExpandShapeOp>().getSrc();
  Value count = tensor::DimOp::create(b, loc, rotation.source, 0);
  Value room = tensor::EmptyOp::create(b, loc, {count, b.getIndexAttr(width)}, rope.getType().getElementType());
  auto both = RotateAppendOp::create(b, loc, TypeRange{room.getType()}, rotation.source, positions, rope.getTable(),
                                     append.getCache(), append.getLayer(), ValueRange{room}, rope.getRopeAttr(),
                                     b.getI64IntegerAttr(width / cache.getHeadDim()), rope.getOffsetAttr());
  for (Operation *user : llvm::make_early_inc_range(rows->getUsers())) {
    if (auto dim = dyn_cast<tensor::DimOp>(user))
      dim.getSourceMutable().assign(rotation.source);
    else if (user != append.getKey().getDefiningOp())
      user->getResult(0).replaceAllUsesWith(both.getResult(0));
  }
  append->erase();
}

void heddle::appendRotations(Block &block, TargetAttr target) {
  if (!target || target.getDevice() != TargetDevice::Cuda)
    return;
  for (auto append : llvm::make_early_inc_range(block.getOps<KvAppendOp>())) {
    FailureOr<Rotation> rotation = failure();
    if (hasRotateAppend(target, append.getCache().getType()))
      rotation = rotationBefore(append);
    if (failed(rotation))
      append.emitRemark("stores keys and values by a kernel of any device: CUDA's rotates them first, of caches of "
                        "bf16 and f32, and with the "
                        "queries beside them in one product");
    else
      fuse(append, *rotation);
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}
