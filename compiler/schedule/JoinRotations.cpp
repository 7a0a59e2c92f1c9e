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

// A rope between rows and rows: columns [begin, begin + width) of `source`, as heads, normalised where there is a norm, rotated, and as rows again.
struct Rotation {
  RopeOp rope;
  RmsNormOp norm;
  Value source;
  int64_t begin, width;
  SmallVector<tensor::CollapseShapeOp> rows;
};

// What a `rotate_append` takes the place of: the rotation of queries and that of keys, which may be one, of the columns before the values.
struct Appended {
  Rotation query, key;
  int64_t queries; // columns
  // What becomes the rotated queries.
  SmallVector<Value> results;
};

} // namespace

static const SmallVector<ReassociationIndices> headGroups = {{0, 1}, {2, 3}};
static const int64_t swapsHeads[] = {0, 2, 1, 3};

static bool swaps(linalg::TransposeOp op) {
  return op && op.getPermutation() == ArrayRef<int64_t>(swapsHeads);
}

static FailureOr<Rotation> rotationOf(RopeOp rope) {
  auto norm = rope.getInput().getDefiningOp<RmsNormOp>();
  auto heads = (norm ? norm.getInput() : rope.getInput()).getDefiningOp<linalg::TransposeOp>();
  auto expand = swaps(heads) ? heads.getInput().getDefiningOp<tensor::ExpandShapeOp>() : tensor::ExpandShapeOp();
  auto part = expand && expand.getReassociationIndices() == headGroups
                  ? expand.getSrc().getDefiningOp<tensor::ExtractSliceOp>()
                  : tensor::ExtractSliceOp();
  if (!part || part.getSourceType().getRank() != 2 || part.getType().getRank() != 2 || !part.hasUnitStride() ||
      part.getStaticOffset(0) != 0 || part.isDynamicOffset(1) || part.isDynamicSize(1))
    return failure();
  Rotation rotation{rope, norm, part.getSource(), part.getStaticOffset(1), part.getStaticSize(1), {}};
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

// Whether both are of the same rows, the second of the columns behind the first's, by the same angles.
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
    if (FailureOr<Rotation> rotation = rotationOf(rope); succeeded(rotation) && !rotation->norm)
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

// What `rows` shows: rows of heads that a rope left.
static FailureOr<Rotation> rotationOfRows(Value rows) {
  auto collapse = rows.getDefiningOp<tensor::CollapseShapeOp>();
  auto back = collapse ? collapse.getSrc().getDefiningOp<linalg::TransposeOp>() : linalg::TransposeOp();
  auto rope = back ? back.getInput().getDefiningOp<RopeOp>() : RopeOp();
  if (!rope)
    return failure();
  FailureOr<Rotation> rotation = rotationOf(rope);
  if (failed(rotation) || rotation->rows.size() != 1 || rotation->rows.front() != collapse)
    return failure();
  return rotation;
}

// Queries and keys as one rope rotates them: the append stores the last columns of its rows.
static FailureOr<Appended> appendedOfJoined(KvAppendOp append, int64_t width) {
  auto key = append.getKey().getDefiningOp<tensor::ExtractSliceOp>();
  if (!key || !key->hasOneUse())
    return failure();
  FailureOr<Rotation> rotation = rotationOfRows(key.getSource());
  if (failed(rotation))
    return failure();
  Appended appended{*rotation, *rotation, rotation->width - width, {}};
  if (!isColumns(key, key.getSource(), appended.queries, width))
    return failure();
  for (Operation *user : key.getSource().getUsers()) {
    if (user == key || isa<tensor::DimOp>(user))
      continue;
    if (!isColumns(dyn_cast<tensor::ExtractSliceOp>(user), key.getSource(), 0, appended.queries))
      return failure();
    appended.results.push_back(user->getResult(0));
  }
  return appended;
}

// Of heads: (head_dim) of f32, which a kernel can read.
static bool isNormOfHeads(RmsNormOp norm, int64_t headDim) {
  Operation *def = norm.getWeight().getDefiningOp();
  auto type = cast<RankedTensorType>(norm.getWeight().getType());
  return type.getElementType().isF32() && type.getShape() == ArrayRef<int64_t>(headDim) &&
         (!def || isa<WeightOp, PackOp>(def));
}

// Queries and keys that norms of their own keep apart.
static FailureOr<Appended> appendedOfNormed(KvAppendOp append, int64_t headDim) {
  FailureOr<Rotation> key = rotationOfRows(append.getKey());
  if (failed(key) || !key->norm || !isNormOfHeads(key->norm, headDim))
    return failure();
  for (Operation *user : append.getKey().getUsers())
    if (user != append && !isa<tensor::DimOp>(user))
      return failure();
  for (auto rope : append->getBlock()->getOps<RopeOp>()) {
    FailureOr<Rotation> query = rotationOf(rope);
    if (failed(query) || !query->norm || !areNeighbours(*query, *key) || !isNormOfHeads(query->norm, headDim) ||
        query->norm.getEps() != key->norm.getEps() || query->norm.getWeightOffset() != key->norm.getWeightOffset())
      continue;
    Appended appended{*query, *key, query->width, {}};
    for (tensor::CollapseShapeOp rows : query->rows)
      appended.results.push_back(rows.getResult());
    return appended;
  }
  return failure();
}

// What `append` stores, if its keys were rotated beside the queries and the values lie behind both.
static FailureOr<Appended> appendedBy(KvAppendOp append) {
  KvCacheType cache = append.getCache().getType();
  if (cache.getCross() || cache.isLatent())
    return failure();
  int64_t headDim = cache.getHeadDim(), width = cache.getNumKvHeads() * headDim;
  FailureOr<Appended> appended = appendedOfJoined(append, width);
  if (failed(appended))
    appended = appendedOfNormed(append, headDim);
  if (failed(appended))
    return failure();
  const Rotation &query = appended->query;
  RopeOp rope = query.rope;
  auto value = append.getValue().getDefiningOp<tensor::ExtractSliceOp>();
  int64_t values = appended->queries + width;
  if (query.begin != 0 || appended->queries <= 0 || !rope.getTable() ||
      !rope.getPositions().getDefiningOp<tensor::ExpandShapeOp>() || rope.getType().getDimSize(3) != headDim ||
      !isColumns(value, query.source, values, width) ||
      cast<RankedTensorType>(query.source.getType()).getDimSize(1) != values + width)
    return failure();
  Block *block = append->getBlock();
  for (Value result : appended->results)
    for (Operation *reader : result.getUsers())
      if (!isa<tensor::DimOp>(reader) && block->findAncestorOpInBlock(*reader)->isBeforeInBlock(append))
        return failure();
  return appended;
}

// The product that makes the rows of `append` for nobody else, if the target's kernel of it can end with their rotation.
static PackedMatmulOp productOf(RotateAppendOp append, TargetAttr target) {
  Value rows = append.getInput();
  auto product = rows.getDefiningOp<PackedMatmulOp>();
  bool isOnlyReader =
      llvm::all_of(rows.getUsers(), [&](Operation *user) { return user == append || isa<tensor::DimOp>(user); });
  int64_t heads = append.getWidth() / append.getCache().getType().getHeadDim();
  return product && isOnlyReader && endsWithHeads(target, product, heads) ? product : PackedMatmulOp();
}

static void takeAlong(RotateAppendOp append, PackedMatmulOp product) {
  OpBuilder b(append);
  SmallVector<Value> inits = {append.getInits()[0], product.getInits()[0]};
  if (Value room = product.getRoom())
    inits.push_back(room);
  auto both = RotateAppendOp::create(b, mergedLocation(b.getContext(), {product.getLoc(), append.getLoc()}),
                                     TypeRange(ValueRange(inits)), product.getInput(), append.getPositions(),
                                     append.getTable(), append.getCache(), append.getLayer(), append.getQueryNorm(),
                                     append.getKeyNorm(), product.getWeights(), product.getBias(), product.getNorm(),
                                     inits, append.getRopeAttr(), append.getNumHeadsAttr(), append.getOffsetAttr(),
                                     append.getHeadsEpsAttr(), append.getHeadsWeightOffsetAttr(), product.getKAttr(),
                                     product.getFormatAttr(), product.getEpsAttr(), product.getWeightOffsetAttr());
  if (Attribute schedule = product->getAttr(scheduleAttrName))
    both->setAttr(scheduleAttrName, schedule);
  append.getResult(0).replaceAllUsesWith(both.getResult(0));
  append.erase();
  for (Operation *user : llvm::make_early_inc_range(product.getResult(0).getUsers()))
    cast<tensor::DimOp>(user).getSourceMutable().assign(product.getInput()); // of the rows
  product.erase();
}

static RotateAppendOp fuse(KvAppendOp append, const Appended &appended) {
  OpBuilder b(append);
  RopeOp rope = appended.query.rope;
  RmsNormOp norm = appended.query.norm, keyNorm = appended.key.norm;
  KvCacheType cache = append.getCache().getType();
  Location loc = mergedLocation(b.getContext(), {rope.getLoc(), append.getLoc()});
  Value positions = rope.getPositions().getDefiningOp<tensor::ExpandShapeOp>().getSrc(), source = appended.query.source;
  Value count = tensor::DimOp::create(b, loc, source, 0);
  Value room =
      tensor::EmptyOp::create(b, loc, {count, b.getIndexAttr(appended.queries)}, rope.getType().getElementType());
  auto both = RotateAppendOp::create(
      b, loc, TypeRange{room.getType()}, source, positions, rope.getTable(), append.getCache(), append.getLayer(),
      norm ? norm.getWeight() : Value(), norm ? keyNorm.getWeight() : Value(), /*weights=*/Value(), /*bias=*/Value(),
      /*norm=*/Value(), ValueRange{room}, rope.getRopeAttr(),
      b.getI64IntegerAttr(appended.queries / cache.getHeadDim()), rope.getOffsetAttr(),
      norm ? norm.getEpsAttr() : FloatAttr(), norm ? norm.getWeightOffsetAttr() : FloatAttr(), IntegerAttr(),
      StringAttr(), FloatAttr(), FloatAttr());
  SmallVector<Operation *> sizes; // of what is rotated: the rows'
  for (Value result : appended.results)
    llvm::append_range(sizes, result.getUsers());
  for (const Rotation *rotation : {&appended.query, &appended.key})
    for (tensor::CollapseShapeOp rows : rotation->rows)
      llvm::append_range(sizes, rows->getUsers());
  for (Operation *user : sizes)
    if (auto dim = dyn_cast<tensor::DimOp>(user))
      dim.getSourceMutable().assign(source);
  for (Value result : appended.results)
    result.replaceAllUsesWith(both.getResult(0));
  append->erase();
  return both;
}

void heddle::appendRotations(Block &block, TargetAttr target) {
  if (!target || target.getDevice() == TargetDevice::Cpu)
    return;
  SmallVector<RotateAppendOp> fused;
  for (auto append : llvm::make_early_inc_range(block.getOps<KvAppendOp>())) {
    FailureOr<Appended> appended = failure();
    bool storesCodes = append.getCache().getType().getElementType().isInteger();
    if (hasRotateAppend(target, append.getCache().getType()))
      appended = appendedBy(append);
    if (failed(appended))
      append.emitRemark("stores keys and values by a kernel of their own: one that rotates them first ")
          << (storesCodes ? "stores no codes"
                          : "takes heads of an even width, with the queries beside them in one product");
    else
      fused.push_back(fuse(append, *appended));
  }
  auto eraseDead = [&] {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  };
  eraseDead(); // what read the rows before
  for (RotateAppendOp append : fused) {
    if (PackedMatmulOp product = productOf(append, target))
      takeAlong(append, product);
    else if (target.getDevice() == TargetDevice::Cuda)
      append.emitRemark(
          "rotates by a kernel of its own: the product before it has another reader, or no kernel for few rows");
  }
  eraseDead();
}
