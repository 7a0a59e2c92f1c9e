// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Latent attention, from the formula in dialect/ModelOps.td: keys and values are rebuilt, whatever body the op asks for.

#include "compiler/interpreter/Formulas.h"
#include "compiler/interpreter/Frame.h"

using namespace mlir;
using namespace heddle;

namespace {
// Element (i, r) of KV head g's up-projection.
using Up = std::function<double(int64_t g, int64_t i, int64_t r)>;

// The keys and values of one KV head and one sequence.
struct Rebuilt {
  std::vector<double> keys, values; // (tokens, nope + rope), (tokens, value)
};

// One token of a sequence, as it is cached.
struct Cached {
  ArrayRef<double> latent, rope;
};
} // namespace

static Rebuilt rebuild(const LatentDims &dims, int64_t tokens, function_ref<Cached(int64_t)> token, int64_t g,
                       const Up &keyUp, const Up &valueUp) {
  int64_t width = dims.queryDim();
  Rebuilt rebuilt;
  rebuilt.keys.resize(tokens * width);
  rebuilt.values.resize(tokens * dims.value);
  SmallVector<ArrayRef<double>> latents;
  for (int64_t j = 0; j < tokens; ++j) {
    Cached cached = token(j);
    latents.push_back(cached.latent);
    llvm::copy(cached.rope, rebuilt.keys.begin() + j * width + dims.nope);
  }
  // Column `i` of every token: row `i` of the head's matrix times its latent.
  auto product = [&](const Up &up, int64_t i, std::vector<double> &out, int64_t stride) {
    std::vector<double> row(dims.rank), sums(tokens);
    for (int64_t r = 0; r < dims.rank; ++r)
      row[r] = up(g, i, r);
    addDots(row.data(), [&](int64_t j) { return latents[j].data(); }, dims.rank, sums);
    for (int64_t j = 0; j < tokens; ++j)
      out[j * stride + i] = sums[j];
  };
  for (int64_t i = 0; i < dims.nope; ++i)
    product(keyUp, i, rebuilt.keys, width);
  for (int64_t i = 0; i < dims.value; ++i)
    product(valueUp, i, rebuilt.values, dims.value);
  return rebuilt;
}

template <typename Op>
static void attendRebuilt(Op op, const LatentDims &dims, const Rebuilt &rebuilt, int64_t keys, int64_t position,
                          ArrayRef<double> query, MutableArrayRef<double> out) {
  AttentionRow row;
  row.scale = op.getScale().convertToDouble();
  row.causal = op.getMask().getCausal();
  row.window = op.getMask().getWindow();
  row.chunk = op.getMask().getChunk();
  row.keys = keys;
  row.position = position;
  row.query = query;
  row.key = [&](int64_t j) { return ArrayRef<double>(rebuilt.keys).slice(j * dims.queryDim(), dims.queryDim()); };
  row.value = [&](int64_t j) { return ArrayRef<double>(rebuilt.values).slice(j * dims.value, dims.value); };
  attend(row, out);
}

// Every row of the step and every head of `op`: `index(r, h)` numbers the (row, head) pairs of query and result.
template <typename Op>
static void attendCache(Op op, const LatentDims &dims, const KvCache &cache, int64_t layer, const Up &keyUp,
                        const Up &valueUp, const Tensor &query, Tensor &result,
                        function_ref<int64_t(int64_t r, int64_t h)> index) {
  int64_t group = dims.numHeads / dims.numKvHeads;
  for (int64_t sequence = 0; sequence < cache.numSequences(); ++sequence)
    for (int64_t g = 0; g < dims.numKvHeads; ++g) {
      auto token = [&](int64_t j) {
        return Cached{cache.load(layer, false, sequence, j), cache.load(layer, true, sequence, j)};
      };
      Rebuilt rebuilt = rebuild(dims, cache.tokens(sequence), token, g, keyUp, valueUp);
      for (auto [r, place] : llvm::enumerate(cache.rows()))
        for (int64_t h = g * group; place.sequence == sequence && h < (g + 1) * group; ++h)
          attendRebuilt(op, dims, rebuilt, cache.tokens(sequence), place.position,
                        ArrayRef<double>(query.reals).slice(index(r, h) * dims.queryDim(), dims.queryDim()),
                        MutableArrayRef<double>(result.reals).slice(index(r, h) * dims.value, dims.value));
    }
  result.round();
}

static Up matrices(Frame &frame, OperandRange ups) {
  std::vector<const Tensor *> tensors;
  for (Value up : ups)
    tensors.push_back(&frame.tensor(up));
  return [tensors](int64_t g, int64_t i, int64_t r) { return tensors[g]->reals[i * tensors[g]->dim(1) + r]; };
}

//===- latent_attention ---------------------------------------------------===//

static LogicalResult latentAttention(Frame &frame, LatentAttentionOp op) {
  LatentDims dims = op.getDims();
  Up keyUp = matrices(frame, op.getKeyUps()), valueUp = matrices(frame, op.getValueUps());
  const Tensor &query = frame.tensor(op.getQuery());
  int64_t batch = query.dim(0), heads = dims.numHeads, queries = query.dim(2), group = heads / dims.numKvHeads;
  Tensor result = Tensor::zeros(getElementTypeOrSelf(op.getType()), {batch, heads, queries, dims.value});
  if (const auto *view = std::get_if<KvView>(&frame.value(op.getLatent()))) {
    if (view->isValue || batch != 1 || queries != static_cast<int64_t>(view->cache->rows().size()))
      return op.emitOpError("over the cache takes a query of (1, heads, ")
             << view->cache->rows().size() << ", head_dim)";
    attendCache(op, dims, *view->cache, view->layer, keyUp, valueUp, query, result,
                [&](int64_t r, int64_t h) { return h * queries + r; });
    frame.set(op, std::move(result));
    return success();
  }
  const Tensor &latent = frame.tensor(op.getLatent());
  const Tensor *rope = op.getKeyRope() ? &frame.tensor(op.getKeyRope()) : nullptr;
  int64_t keys = latent.dim(2);
  if (latent.dim(0) != batch || (rope && (rope->dim(0) != batch || rope->dim(2) != keys))) // latent_attention_c5
    return op.emitOpError("batch and sequence of query, latent and key_rope do not fit together");
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h) {
      auto token = [&](int64_t j) {
        Cached cached{ArrayRef<double>(latent.reals).slice((b * keys + j) * dims.rank, dims.rank), {}};
        if (rope)
          cached.rope = ArrayRef<double>(rope->reals).slice((b * keys + j) * dims.rope, dims.rope);
        return cached;
      };
      Rebuilt rebuilt = rebuild(dims, keys, token, h / group, keyUp, valueUp);
      for (int64_t i = 0, row = (b * heads + h) * queries; i < queries; ++i, ++row)
        attendRebuilt(op, dims, rebuilt, keys, keys - queries + i,
                      ArrayRef<double>(query.reals).slice(row * dims.queryDim(), dims.queryDim()),
                      MutableArrayRef<double>(result.reals).slice(row * dims.value, dims.value));
    }
  result.round();
  frame.set(op, std::move(result));
  return success();
}

//===- online_latent_attention --------------------------------------------===//

// One packed tensor, heads one after the other, or a matrix per head.
static FailureOr<Up> upOf(Frame &frame, OnlineLatentAttentionOp op, OperandRange ups, std::optional<StringRef> format,
                          int64_t rows) {
  if (!format)
    return matrices(frame, ups);
  LatentDims dims = op.getDims();
  FailureOr<PackedWeights> packed = packedWeights(frame, op, ups.front(), *format, dims.numKvHeads * rows, dims.rank);
  if (failed(packed))
    return failure();
  return Up([packed = *packed, rows](int64_t g, int64_t i, int64_t r) { return packed.at(g * rows + i, r); });
}

// The same from the transposed matrices.
static FailureOr<Up> upOfFolds(Frame &frame, OnlineLatentAttentionOp op) {
  LatentDims dims = op.getDims();
  FailureOr<PackedWeights> packed = packedWeights(frame, op, op.getKeyFolds(), op.getFoldFormat().value_or("f32"),
                                                  dims.numKvHeads * dims.rank, dims.nope);
  if (failed(packed))
    return failure();
  return Up(
      [packed = *packed, rank = dims.rank](int64_t g, int64_t i, int64_t r) { return packed.at(g * rank + r, i); });
}

// `automatic` reads the one or the other, so both must hold the same numbers.
static LogicalResult verifyFolds(OnlineLatentAttentionOp op, const Up &keyUp, const Up &fold) {
  LatentDims dims = op.getDims();
  for (int64_t g = 0; g < dims.numKvHeads; ++g)
    for (int64_t i = 0; i < dims.nope; ++i)
      for (int64_t r = 0; r < dims.rank; ++r)
        if (keyUp(g, i, r) != fold(g, i, r))
          return op.emitOpError("key_folds are not key_ups transposed: (")
                 << i << ", " << r << ") of KV head " << g << " is " << fold(g, i, r) << ", expected "
                 << keyUp(g, i, r);
  return success();
}

static LogicalResult onlineLatentAttention(Frame &frame, OnlineLatentAttentionOp op) {
  LatentDims dims = op.getDims();
  const KvCache &cache = *std::get<std::shared_ptr<KvCache>>(frame.value(op.getCache()));
  const Tensor &query = frame.tensor(op.getQuery());
  int64_t layer = frame.integer(op.getLayer());
  bool rebuilds = !op.getKeyUps().empty();
  FailureOr<Up> keyUp = rebuilds ? upOf(frame, op, op.getKeyUps(), op.getKeyFormat(), dims.nope) : upOfFolds(frame, op);
  FailureOr<Up> valueUp = upOf(frame, op, op.getValueUps(), op.getValueFormat(), dims.value);
  FailureOr<Up> fold = rebuilds && op.getKeyFolds() ? upOfFolds(frame, op) : keyUp;
  if (failed(keyUp) || failed(valueUp) || failed(fold) || failed(verifyFolds(op, *keyUp, *fold)))
    return failure();
  if (layer < 0 || layer >= cache.type().getNumLayers())
    return op.emitOpError("layer ") << layer << " is not one of the cache's " << cache.type().getNumLayers();
  if (query.dim(0) != static_cast<int64_t>(cache.rows().size()))
    return op.emitOpError("has ") << query.dim(0) << " rows in a step of " << cache.rows().size();
  Tensor result = Tensor::zeros(frame.tensor(op.getInits()[0]).elementType, {query.dim(0), dims.numHeads * dims.value});
  attendCache(op, dims, cache, layer, *keyUp, *valueUp, query, result,
              [&](int64_t r, int64_t h) { return r * dims.numHeads + h; });
  frame.set(op.getResults()[0], std::move(result));
  // Scratch and splits, whose bytes are the bodies' own.
  for (auto [used, init] : llvm::drop_begin(llvm::zip_equal(op.getResults(), op.getInits())))
    frame.set(used, frame.value(init));
  return success();
}

void heddle::addLatentAttentionHandlers(HandlerTable &table) {
  table.add<LatentAttentionOp>(latentAttention);
  table.add<OnlineLatentAttentionOp>(onlineLatentAttention);
}
