// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over tensors and over the cache.

#include "compiler/interpreter/Formulas.h"
#include "compiler/interpreter/Frame.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

namespace {
// A row over some of its keys: weights are exp(score - max), their sum, and the values so weighted go to `out`.
struct PartialRow {
  double max = -INFINITY, sum = 0;
};
} // namespace

static PartialRow attendKeys(const AttentionRow &row, int64_t begin, int64_t end, MutableArrayRef<double> out) {
  llvm::fill(out, 0);
  PartialRow part;
  SmallVector<int64_t> seen;
  for (int64_t j = begin; j < std::min(end, row.keys); ++j)
    if (row.sees(j))
      seen.push_back(j);
  SmallVector<double> scores(seen.size()); // logits
  addDots(row.query.data(), [&](int64_t i) { return row.key(seen[i]).data(); }, row.query.size(), scores);
  for (auto [j, score] : llvm::zip_equal(seen, scores)) {
    score *= row.scale;
    if (row.softcap)
      score = row.softcap * std::tanh(score / row.softcap);
    if (row.bias)
      score += row.bias(j);
    part.max = std::isnan(score) ? score : std::fmax(part.max, score);
  }
  if (part.max == -INFINITY)
    return part;
  for (auto [j, score] : llvm::zip_equal(seen, scores)) {
    double weight = std::exp(score - part.max);
    part.sum += weight;
    ArrayRef<double> value = row.value(j);
    for (size_t d = 0; d < out.size(); ++d)
      out[d] += weight * value[d];
  }
  return part;
}

void heddle::attend(const AttentionRow &row, MutableArrayRef<double> out) {
  PartialRow part = attendKeys(row, 0, row.keys, out);
  double greatest = row.sink ? std::fmax(*row.sink, part.max) : part.max;
  if (greatest == -INFINITY)
    return;
  double factor = std::exp(part.max - greatest);
  double sum = factor * part.sum + (row.sink ? std::exp(*row.sink - greatest) : 0);
  for (double &element : out)
    element *= factor / sum;
}

// What an op says about every row.
template <typename Op> static AttentionRow rowOf(Op op) {
  AttentionRow row;
  row.scale = op.getScale().convertToDouble();
  row.softcap = op.getSoftcap().convertToDouble();
  row.causal = op.getMask().getCausal();
  row.window = op.getMask().getWindow();
  row.ahead = op.getMask().getAhead();
  row.chunk = op.getMask().getChunk();
  return row;
}

namespace {
// Global tokens: `flags`, a number for each token, or null where there are none. Their keys are seen by all; or, with `isQuery`, they are the
// queries that are computed, `given` being what the others stay.
struct GlobalRows {
  const Tensor *flags = nullptr;
  bool isQuery = false;
  const Tensor *given = nullptr;
};
} // namespace

// Begins the row of query `i` of the sequence whose first token has number `first`; false where it is not computed.
template <typename Op>
static bool beginRow(Op op, const GlobalRows &globals, int64_t first, int64_t i, AttentionRow &row) {
  row = rowOf(op);
  auto isGlobal = [flags = globals.flags, first](int64_t token) { return flags->integers[first + token] != 0; };
  if (!globals.isQuery) {
    if (globals.flags)
      row.isGlobal = isGlobal;
    return true;
  }
  row.causal = false;
  row.window = row.ahead = row.chunk = 0;
  return isGlobal(i);
}

// The keys and values of a KV head in the cache that a query at `place` sees.
static void readCache(AttentionRow &row, const KvCache &cache, int64_t layer, int64_t kvHead, KvCache::Row place) {
  int64_t headDim = cache.type().getHeadDim();
  row.keys = cache.tokens(place.sequence);
  row.position = place.position;
  auto reader = [&cache, layer, kvHead, headDim, sequence = place.sequence](bool isValue) {
    return [=, &cache](int64_t j) { return cache.load(layer, isValue, sequence, j).slice(kvHead * headDim, headDim); };
  };
  row.key = reader(false);
  row.value = reader(true);
}

//===- position_bias ------------------------------------------------------===//

// What a head's scores get where the key lies `distance` behind the query.
static double biasAtDistance(const Tensor &table, std::optional<ArrayRef<int64_t>> starts,
                             std::optional<ArrayRef<int64_t>> rows, int64_t head, int64_t distance) {
  if (!rows)
    return -table.reals[head] * distance;
  size_t k = llvm::count_if(*starts, [&](int64_t start) { return start <= distance; });
  return table.reals[(*rows)[k] * table.lastDim() + head];
}

// Adds what the op says of positions to the scores of `row`, whose place among the keys is known. `first`: the number of its sequence's first
// token among all, of which each may give something for a distance.
template <typename Op>
static void addPositions(Frame &frame, Op op, AttentionRow &row, int64_t head, int64_t first = 0) {
  if (!op.getPositions())
    return;
  const Tensor &table = frame.tensor(op.getPositions());
  if (op.getRows() && cast<ShapedType>(op.getPositions().getType()).isDynamicDim(0)) {
    int64_t heads = op.getNumHeads(), width = table.lastDim(), buckets = width / (2 * heads);
    row.bias = [&table, op, head, first, heads, width, buckets, position = row.position](int64_t j) mutable {
      size_t k = llvm::count_if(*op.getStarts(), [&](int64_t start) { return start <= position - j; });
      int64_t bucket = (*op.getRows())[k];
      return table.reals[(first + position) * width + head * buckets + bucket] +
             table.reals[(first + j) * width + (heads + head) * buckets + bucket];
    };
    return;
  }
  row.bias = [&table, op, head, position = row.position](int64_t j) mutable {
    return biasAtDistance(table, op.getStarts(), op.getRows(), head, position - j);
  };
}

static LogicalResult positionBias(Frame &frame, PositionBiasOp op) {
  const Tensor &table = frame.tensor(op.getTable());
  int64_t heads = table.lastDim(), queries = frame.integer(op.getQueries()), keys = frame.integer(op.getKeys());
  Tensor result = Tensor::zeros(getElementTypeOrSelf(op.getType()), {1, heads, queries, keys});
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t j = 0; j < keys; ++j)
        result.setReal((h * queries + i) * keys + j,
                       biasAtDistance(table, op.getStarts(), op.getRows(), h, keys - queries + i - j));
  frame.set(op, std::move(result));
  return success();
}

//===- attention ----------------------------------------------------------===//

// Query rows are those of the step, each against its own sequence: (1, num_heads, rows, head_dim).
static LogicalResult attendView(Frame &frame, AttentionOp op, const KvView &keys, const KvView &values) {
  const Tensor &query = frame.tensor(op.getQuery());
  const KvCache &cache = *keys.cache;
  int64_t heads = query.dim(1), rows = query.dim(2), headDim = query.dim(3);
  int64_t group = heads / cache.type().getNumKvHeads();
  if (keys.isValue || !values.isValue || keys.cache != values.cache || keys.layer != values.layer)
    return op.emitOpError("must read keys and values of one layer of one cache");
  if (query.dim(0) != 1 || rows != static_cast<int64_t>(cache.rows().size()) || op.getBias())
    return op.emitOpError("over the cache takes a query of (1, heads, ")
           << cache.rows().size() << ", head_dim) and no bias";
  Tensor result = Tensor::zeros(getElementTypeOrSelf(op.getType()), query.shape);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t r = 0; r < rows; ++r) {
      AttentionRow row = rowOf(op);
      readCache(row, cache, keys.layer, h / group, cache.rows()[r]);
      row.query = ArrayRef<double>(query.reals).slice((h * rows + r) * headDim, headDim);
      addPositions(frame, op, row, h);
      if (op.getSinks())
        row.sink = frame.tensor(op.getSinks()).reals[h];
      attend(row, MutableArrayRef<double>(result.reals).slice((h * rows + r) * headDim, headDim));
    }
  result.round();
  frame.set(op, std::move(result));
  return success();
}

// Element (b, h, i, j) of a bias whose dimensions are those of the scores or 1.
static double biasAt(const Tensor &bias, ArrayRef<int64_t> index) {
  int64_t position = 0;
  for (auto [size, i] : llvm::zip_equal(bias.shape, index))
    position = position * size + (size == 1 ? 0 : i);
  return bias.reals[position];
}

// The formula of attention over tensors, (batch, heads, sequence, head_dim), as (batch, heads, queries, value_dim).
template <typename Op>
static FailureOr<Tensor> attendTensors(Frame &frame, Op op, Type element, const Tensor &query, const Tensor &key,
                                       const Tensor &value, const GlobalRows &globals = {}) {
  int64_t batch = query.dim(0), heads = query.dim(1), queries = query.dim(2), headDim = query.dim(3);
  int64_t kvHeads = key.dim(1), keys = key.dim(2), valueDim = value.dim(3), group = heads / kvHeads;
  if (key.dim(0) != batch || value.dim(0) != batch || value.dim(2) != keys) // attention_c3, flash_attention_c3
    return op.emitOpError("batch and sequence of query, key and value do not fit together");
  const Tensor *bias = op.getBias() ? &frame.tensor(op.getBias()) : nullptr;
  const int64_t scores[] = {batch, heads, queries, keys};
  for (int64_t d = 0; bias && d < 4; ++d)
    if (bias->dim(d) != 1 && bias->dim(d) != scores[d])
      return op.emitOpError("bias has ") << bias->dim(d) << " elements in dimension " << d << " of " << scores[d];

  Tensor result = globals.isQuery ? *globals.given : Tensor::zeros(element, {batch, heads, queries, valueDim});
  forEachIndex({batch, heads, queries}, [&](ArrayRef<int64_t> index) {
    int64_t b = index[0], h = index[1], i = index[2], kvHead = b * kvHeads + h / group;
    AttentionRow row;
    if (!beginRow(op, globals, b * keys, i, row))
      return;
    row.keys = keys;
    row.position = keys - queries + i;
    row.query = ArrayRef<double>(query.reals).slice(((b * heads + h) * queries + i) * headDim, headDim);
    row.key = [&](int64_t j) { return ArrayRef<double>(key.reals).slice((kvHead * keys + j) * headDim, headDim); };
    row.value = [&](int64_t j) {
      return ArrayRef<double>(value.reals).slice((kvHead * keys + j) * valueDim, valueDim);
    };
    if constexpr (std::is_same_v<Op, AttentionOp>)
      addPositions(frame, op, row, h, b * keys);
    if (bias)
      row.bias = [&](int64_t j) { return biasAt(*bias, {b, h, i, j}); };
    if (op.getSinks())
      row.sink = frame.tensor(op.getSinks()).reals[h];
    attend(row, MutableArrayRef<double>(result.reals).slice(((b * heads + h) * queries + i) * valueDim, valueDim));
  });
  result.round();
  return result;
}

// Row r of a matrix whose rows have `heads` heads side by side.
static ArrayRef<double> headOfRow(const Tensor &rows, int64_t heads, int64_t r, int64_t h) {
  int64_t headDim = rows.dim(1) / heads;
  return ArrayRef<double>(rows.reals).slice((r * heads + h) * headDim, headDim);
}

// The formula of attention within sequences, on (rows, heads * head_dim); (rows, num_heads * value_dim). Rows of no sequence are zeros.
template <typename Op>
static FailureOr<Tensor> attendSequences(Frame &frame, Op op, Type element, const Tensor &query, const Tensor &key,
                                         const Tensor &value, int64_t heads, int64_t kvHeads,
                                         const GlobalRows &globals) {
  const Tensor &sequences = frame.tensor(op.getSequences());
  int64_t rows = query.dim(0), valueDim = value.dim(1) / kvHeads;
  Tensor result = globals.isQuery ? *globals.given : Tensor::zeros(element, {rows, heads * valueDim});
  for (int64_t s = 0; s < sequences.dim(0); ++s) {
    int64_t first = sequences.integers[2 * s], count = sequences.integers[2 * s + 1];
    if (first < 0 || count < 0 || first + count > rows)
      return op.emitOpError("has a sequence of ") << count << " rows from row " << first << " on, of " << rows;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t h = 0; h < heads; ++h) {
        AttentionRow row;
        if (!beginRow(op, globals, first, i, row))
          continue;
        int64_t kvHead = h / (heads / kvHeads);
        row.keys = count;
        row.position = i;
        row.query = headOfRow(query, heads, first + i, h);
        row.key = [&](int64_t j) { return headOfRow(key, kvHeads, first + j, kvHead); };
        row.value = [&](int64_t j) { return headOfRow(value, kvHeads, first + j, kvHead); };
        addPositions(frame, op, row, h, first);
        if (op.getSinks())
          row.sink = frame.tensor(op.getSinks()).reals[h];
        attend(row, MutableArrayRef<double>(result.reals).slice(((first + i) * heads + h) * valueDim, valueDim));
      }
  }
  result.round();
  return result;
}

// (1, heads, rows, head_dim) as (rows, heads * head_dim), and back.
static Tensor exchangeHeads(const Tensor &tensor, int64_t outer, int64_t inner, ArrayRef<int64_t> shape) {
  Tensor result = Tensor::zeros(tensor.elementType, shape);
  int64_t width = tensor.size() / std::max<int64_t>(outer * inner, 1);
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < inner; ++j)
      std::copy_n(tensor.reals.begin() + (i * inner + j) * width, width,
                  result.reals.begin() + (j * outer + i) * width);
  return result;
}

// What `attend` gives for query, key and value, then for the global ones.
static FailureOr<Tensor> attendWithGlobals(
    Frame &frame, AttentionOp op,
    function_ref<FailureOr<Tensor>(Value query, Value key, Value value, const GlobalRows &globals)> attend) {
  GlobalRows globals;
  if (op.getGlobals())
    globals.flags = &frame.tensor(op.getGlobals());
  FailureOr<Tensor> result = attend(op.getQuery(), op.getKey(), op.getValue(), globals);
  if (!op.getGlobals() || failed(result))
    return result;
  OperandRange global = op.getGlobalOperands();
  return attend(global[0], global[1], global[2], {globals.flags, /*isQuery=*/true, &*result});
}

static LogicalResult attendRaggedHeads(Frame &frame, AttentionOp op) {
  auto rowsOf = [&](Value heads) {
    const Tensor &tensor = frame.tensor(heads);
    return exchangeHeads(tensor, tensor.dim(1), tensor.dim(2), {tensor.dim(2), tensor.dim(1) * tensor.dim(3)});
  };
  int64_t heads = op.getNumHeads();
  auto attendRows = [&](Value query, Value key, Value value, const GlobalRows &globals) {
    return attendSequences(frame, op, getElementTypeOrSelf(op.getType()), rowsOf(query), rowsOf(key), rowsOf(value),
                           heads, op.getNumKvHeads(), globals);
  };
  FailureOr<Tensor> rows = attendWithGlobals(frame, op, attendRows);
  if (failed(rows))
    return failure();
  frame.set(op, exchangeHeads(*rows, rows->dim(0), heads, {1, heads, rows->dim(0), rows->dim(1) / heads}));
  return success();
}

static LogicalResult attention(Frame &frame, AttentionOp op) {
  if (op.getSequences())
    return attendRaggedHeads(frame, op);
  const auto *keyView = std::get_if<KvView>(&frame.value(op.getKey()));
  const auto *valueView = std::get_if<KvView>(&frame.value(op.getValue()));
  if (keyView && valueView)
    return attendView(frame, op, *keyView, *valueView);
  if (keyView || valueView)
    return op.emitOpError("must read keys and values of one layer of one cache");
  auto attendHeads = [&](Value query, Value key, Value value, const GlobalRows &globals) {
    return attendTensors(frame, op, getElementTypeOrSelf(op.getType()), frame.tensor(query), frame.tensor(key),
                         frame.tensor(value), globals);
  };
  FailureOr<Tensor> result = attendWithGlobals(frame, op, attendHeads);
  if (failed(result))
    return failure();
  frame.set(op, std::move(*result));
  return success();
}

//===- flash_attention ----------------------------------------------------===//

// Dimension a of the result is dimension axes[a] of `tensor`.
static Tensor arranged(const Tensor &tensor, ArrayRef<int64_t> axes) {
  SmallVector<int64_t> shape, strides(4, 1);
  for (int64_t axis : axes)
    shape.push_back(tensor.dim(axis));
  for (int64_t d = 2; d >= 0; --d)
    strides[d] = strides[d + 1] * tensor.dim(d + 1);
  Tensor result = Tensor::zeros(tensor.elementType, shape);
  int64_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t from = 0;
    for (auto [i, axis] : llvm::zip_equal(index, axes))
      from += i * strides[axis];
    result.reals[next++] = tensor.reals[from];
  });
  return result;
}

static LogicalResult flashAttention(Frame &frame, FlashAttentionOp op) {
  const Tensor &place = frame.tensor(op.getInits()[0]);
  FailureOr<Tensor> result = attendTensors(
      frame, op, place.elementType, arranged(frame.tensor(op.getQuery()), op.getQueryAxes()),
      arranged(frame.tensor(op.getKey()), op.getKeyAxes()), arranged(frame.tensor(op.getValue()), op.getValueAxes()));
  if (failed(result))
    return failure();
  SmallVector<int64_t> back(4); // where each axis of the destination is found
  for (auto [a, axis] : llvm::enumerate(op.getOutAxes()))
    back[axis] = a;
  Tensor stored = arranged(*result, back);
  if (stored.shape != place.shape) // flash_attention_c4
    return op.emitOpError("writes to a destination of another shape");
  frame.set(op.getResults()[0], std::move(stored));
  return success();
}

//===- ragged_attention ---------------------------------------------------===//

static LogicalResult raggedAttention(Frame &frame, RaggedAttentionOp op) {
  const Tensor &given = frame.tensor(op.getInits()[0]);
  GlobalRows globals;
  if (op.getGlobals())
    globals = {&frame.tensor(op.getGlobals()), op.getOfGlobals(), &given};
  FailureOr<Tensor> result =
      attendSequences(frame, op, given.elementType, frame.tensor(op.getQuery()), frame.tensor(op.getKey()),
                      frame.tensor(op.getValue()), op.getNumHeads(), op.getNumKvHeads(), globals);
  if (failed(result))
    return failure();
  frame.set(op.getResults()[0], std::move(*result));
  return success();
}

//===- online_attention ---------------------------------------------------===//

// `body(row, r, h)` for row r of the step and query head h of an op.
static LogicalResult forEachQuery(Frame &frame, OnlineAttentionOp op,
                                  function_ref<void(AttentionRow &, int64_t, int64_t)> body) {
  const KvCache &cache = *std::get<std::shared_ptr<KvCache>>(frame.value(op.getCache()));
  const Tensor &query = frame.tensor(op.getQuery());
  FailureOr<int64_t> layer = layerOf(frame, op, cache, op.getLayer());
  if (failed(layer))
    return failure();
  if (query.dim(0) != static_cast<int64_t>(cache.rows().size()))
    return op.emitOpError("has ") << query.dim(0) << " rows in a step of " << cache.rows().size();
  int64_t heads = op.getNumHeads(), headDim = cache.type().getHeadDim(), group = heads / cache.type().getNumKvHeads();
  for (auto [r, place] : llvm::enumerate(cache.rows()))
    for (int64_t h = 0; h < heads; ++h) {
      AttentionRow row = rowOf(op);
      readCache(row, cache, *layer, h / group, place);
      row.query = ArrayRef<double>(query.reals).slice((r * heads + h) * headDim, headDim);
      addPositions(frame, op, row, h);
      body(row, r, h);
    }
  return success();
}

// Row maxima are in units of log 2; that of a split of which nothing is seen is finite.
static constexpr double log2e = 1.4426950408889634, emptyMax = -1e38;

// Rows and splits of a step that buffers of (max_rows, splits * num_heads) have no room for are an error.
static LogicalResult verifyRoom(Frame &frame, Operation *op, const KvCache &cache, const Tensor &maxima, int64_t heads,
                                int64_t splitKv) {
  int64_t rows = cache.rows().size(), splits = maxima.dim(1) / heads;
  if (rows > maxima.dim(0))
    return op->emitOpError("has ") << rows << " rows and room for " << maxima.dim(0);
  for (KvCache::Row place : cache.rows())
    if (cache.tokens(place.sequence) > splits * splitKv)
      return op->emitOpError("has a sequence of ")
             << cache.tokens(place.sequence) << " tokens and room for " << splits * splitKv;
  return success();
}

static LogicalResult splitAttention(Frame &frame, OnlineAttentionOp op) {
  Tensor outputs = frame.tensor(op.getInits()[0]), maxima = frame.tensor(op.getInits()[1]),
         sums = frame.tensor(op.getInits()[2]);
  int64_t heads = op.getNumHeads(), splits = maxima.dim(1) / heads, splitKv = *op.getSplitKv();
  const KvCache &cache = *std::get<std::shared_ptr<KvCache>>(frame.value(op.getCache()));
  int64_t headDim = cache.type().getHeadDim();
  if (failed(verifyRoom(frame, op, cache, maxima, heads, splitKv)))
    return failure();
  LogicalResult result = forEachQuery(frame, op, [&](AttentionRow &row, int64_t r, int64_t h) {
    for (int64_t split = 0; split < splits; ++split) {
      int64_t state = (r * splits + split) * heads + h;
      MutableArrayRef<double> out = MutableArrayRef<double>(outputs.reals).slice(state * headDim, headDim);
      PartialRow part = attendKeys(row, split * splitKv, (split + 1) * splitKv, out);
      maxima.setReal(state, part.max == -INFINITY ? emptyMax : part.max * log2e);
      sums.setReal(state, part.sum);
    }
  });
  outputs.round();
  frame.set(op.getResult(0), std::move(outputs));
  frame.set(op.getResult(1), std::move(maxima));
  frame.set(op.getResult(2), std::move(sums));
  return result;
}

static LogicalResult onlineAttention(Frame &frame, OnlineAttentionOp op) {
  if (op.getSplitKv())
    return splitAttention(frame, op);
  int64_t heads = op.getNumHeads(), headDim = op.getCache().getType().getHeadDim();
  Tensor result = Tensor::zeros(frame.tensor(op.getInits()[0]).elementType, frame.tensor(op.getQuery()).shape);
  LogicalResult status = forEachQuery(frame, op, [&](AttentionRow &row, int64_t r, int64_t h) {
    if (op.getSinks())
      row.sink = frame.tensor(op.getSinks()).reals[h];
    attend(row, MutableArrayRef<double>(result.reals).slice((r * heads + h) * headDim, headDim));
  });
  result.round();
  frame.set(op.getResults()[0], std::move(result));
  if (op.storesScores())
    frame.set(op.getResults()[1], frame.tensor(op.getInits()[1])); // says nothing afterwards
  return status;
}

static LogicalResult combineSplits(Frame &frame, CombineSplitsOp op) {
  const KvCache &cache = *std::get<std::shared_ptr<KvCache>>(frame.value(op.getCache()));
  const Tensor &outputs = frame.tensor(op.getOutputs()), &maxima = frame.tensor(op.getMaxima()),
               &sums = frame.tensor(op.getSums());
  int64_t heads = op.getNumHeads(), headDim = cache.type().getHeadDim(), splits = maxima.dim(1) / heads,
          splitKv = op.getSplitKv();
  if (failed(verifyRoom(frame, op, cache, maxima, heads, splitKv)))
    return failure();
  Tensor result = frame.tensor(op.getInits()[0]);
  for (auto [r, place] : llvm::enumerate(cache.rows()))
    for (int64_t h = 0; h < heads; ++h) {
      AttentionRow row;
      row.causal = op.getMask().getCausal();
      row.window = op.getMask().getWindow();
      row.ahead = op.getMask().getAhead();
      row.chunk = op.getMask().getChunk();
      row.position = place.position;
      SmallVector<int64_t> seen; // states of the splits that the row sees a key of
      double max = op.getSinks() ? frame.tensor(op.getSinks()).reals[h] * log2e : emptyMax;
      double sink = max;
      for (int64_t split = 0; split < splits; ++split) {
        auto keys = llvm::seq(split * splitKv, std::min((split + 1) * splitKv, cache.tokens(place.sequence)));
        if (llvm::none_of(keys, [&](int64_t key) { return row.sees(key); }))
          continue;
        seen.push_back((r * splits + split) * heads + h);
        max = std::fmax(max, maxima.reals[seen.back()]);
      }
      double sum = op.getSinks() ? std::exp2(sink - max) : 0;
      std::vector<double> merged(headDim);
      for (int64_t state : seen) {
        double factor = std::exp2(maxima.reals[state] - max);
        sum += factor * sums.reals[state];
        for (int64_t d = 0; d < headDim; ++d)
          merged[d] += factor * outputs.reals[state * headDim + d];
      }
      for (int64_t d = 0; d < headDim; ++d)
        result.setReal((r * heads + h) * headDim + d, merged[d] / sum);
    }
  frame.set(op.getResults()[0], std::move(result));
  return success();
}

static LogicalResult preferSplits(Frame &frame, PreferSplitsOp op) {
  const KvCache &cache = *std::get<std::shared_ptr<KvCache>>(frame.value(op.getCache()));
  bool isLong = llvm::any_of(cache.rows(),
                             [&](KvCache::Row row) { return cache.tokens(row.sequence) > int64_t(op.getSplitKv()); });
  bool isFew = frame.integer(op.getRows()) <= int64_t(op.getMaxRows());
  int64_t threads = frame.getInterpreter().getOptions().threads;
  llvm::SmallDenseSet<int64_t> sequences;
  for (KvCache::Row row : cache.rows())
    sequences.insert(row.sequence);
  int64_t items = sequences.size() * cache.type().getNumKvHeads();
  bool areThreadsIdle = !threads || (threads > 1 && items < threads * int64_t(op.getItemsPerThread()));
  frame.set(op.getResult(), Tensor::scalar(op.getType(), {0, isLong && isFew && areThreadsIdle}));
  return success();
}

void heddle::addAttentionHandlers(HandlerTable &table) {
  table.add<AttentionOp>(attention);
  table.add<PositionBiasOp>(positionBias);
  table.add<FlashAttentionOp>(flashAttention);
  table.add<RaggedAttentionOp>(raggedAttention);
  table.add<OnlineAttentionOp>(onlineAttention);
  table.add<CombineSplitsOp>(combineSplits);
  table.add<PreferSplitsOp>(preferSplits);
}
