// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that write to the cache, and that name what of it is read.

#include "compiler/interpreter/Formulas.h"
#include "compiler/interpreter/Frame.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace heddle;

FailureOr<int64_t> heddle::layerOf(Frame &frame, Operation *op, const KvCache &cache, Value layer) {
  int64_t index = frame.integer(layer);
  if (index < 0 || index >= cache.type().getNumLayers()) // kv_append_c2
    return op->emitOpError("layer ") << index << " is not one of the cache's " << cache.type().getNumLayers();
  return index;
}

static LogicalResult kvAppend(Frame &frame, KvAppendOp op) {
  KvCache &cache = *std::get<std::shared_ptr<KvCache>>(frame.value(op.getCache()));
  FailureOr<int64_t> layer = layerOf(frame, op, cache, op.getLayer());
  if (failed(layer))
    return failure();
  for (bool isValue : {false, true}) {
    if (isValue && !op.getValue())
      continue;
    const Tensor &rows = frame.tensor(isValue ? op.getValue() : op.getKey());
    int64_t width = cache.width(isValue);
    if (rows.dim(0) != static_cast<int64_t>(cache.rows().size()))
      return op.emitOpError("appends ") << rows.dim(0) << " rows in a step of " << cache.rows().size();
    for (auto [r, place] : llvm::enumerate(cache.rows()))
      cache.store(*layer, isValue, place, ArrayRef<double>(rows.reals).slice(r * width, width));
  }
  return success();
}

// A row's heads are queries, keys and values side by side; of the first two each is normalised and turned in its place.
static LogicalResult rotateAppend(Frame &frame, RotateAppendOp op) {
  KvCache &cache = *std::get<std::shared_ptr<KvCache>>(frame.value(op.getCache()));
  FailureOr<int64_t> layer = layerOf(frame, op, cache, op.getLayer());
  FailureOr<Tensor> input = rowsOfHeads(frame, op);
  if (failed(layer) || failed(input))
    return failure();
  const Tensor &positions = frame.tensor(op.getPositions()), &table = frame.tensor(op.getTable());
  int64_t headDim = cache.type().getHeadDim(), kvHeads = cache.type().getNumKvHeads(), heads = op.getNumHeads();
  int64_t half = op.getRope().getRotaryDim() / 2, width = input->lastDim();
  bool isInterleaved = op.getRope().getInterleaved();
  if (input->dim(0) != static_cast<int64_t>(cache.rows().size()))
    return op.emitOpError("appends ") << input->dim(0) << " rows in a step of " << cache.rows().size();
  for (int64_t begin = 0; op.getQueryNorm() && begin < input->size(); begin += headDim)
    if (int64_t head = begin % width / headDim; head < heads + kvHeads)
      normalise(MutableArrayRef(input->reals).slice(begin, headDim),
                frame.tensor(head < heads ? op.getQueryNorm() : op.getKeyNorm()).reals,
                op.getHeadsEpsAttr().getValueAsDouble(), op.getHeadsWeightOffsetAttr().getValueAsDouble());
  Tensor rotated = *input, result = frame.tensor(op.getInits()[0]);
  for (auto [r, place] : llvm::enumerate(cache.rows())) {
    int64_t position = positions.integers[r];
    if (position < 0 || position >= table.dim(0))
      return op.emitOpError("position ") << position << " is outside the table's " << table.dim(0) << " rows";
    for (int64_t head = 0; head < heads + kvHeads; ++head)
      for (int64_t i = 0; i < half; ++i) {
        int64_t begin = r * width + head * headDim + op.getOffset();
        int64_t first = begin + (isInterleaved ? 2 * i : i), second = isInterleaved ? first + 1 : first + half;
        double cosine = table.reals[position * 2 * half + i], sine = table.reals[position * 2 * half + half + i];
        rotated.setReal(first, input->reals[first] * cosine - input->reals[second] * sine);
        rotated.setReal(second, input->reals[second] * cosine + input->reals[first] * sine);
      }
    ArrayRef<double> row = ArrayRef<double>(rotated.reals).slice(r * width, width);
    for (int64_t i = 0; i < heads * headDim; ++i)
      result.setReal(r * heads * headDim + i, row[i]);
    cache.store(*layer, /*isValue=*/false, place, row.slice(heads * headDim, kvHeads * headDim));
    cache.store(*layer, /*isValue=*/true, place, row.slice((heads + kvHeads) * headDim, kvHeads * headDim));
  }
  frame.set(op.getResults()[0], std::move(result));
  for (auto [room, left] : llvm::zip(op.getInits().drop_front(), op.getResults().drop_front()))
    frame.set(left, Tensor(frame.tensor(room)));
  return success();
}

static LogicalResult kvView(Frame &frame, KvViewOp op) {
  auto cache = std::get<std::shared_ptr<KvCache>>(frame.value(op.getCache()));
  FailureOr<int64_t> layer = layerOf(frame, op, *cache, op.getLayer());
  if (failed(layer))
    return failure();
  frame.set(op.getKey(), KvView{cache, *layer, false});
  frame.set(op.getValue(), KvView{cache, *layer, true});
  return success();
}

void heddle::addCacheHandlers(HandlerTable &table) {
  table.add<KvAppendOp>(kvAppend);
  table.add<RotateAppendOp>(rotateAppend);
  table.add<KvViewOp>(kvView);
}
