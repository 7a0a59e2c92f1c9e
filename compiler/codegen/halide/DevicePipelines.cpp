// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/DevicePipelines.h"

#include "compiler/codegen/halide/ScalarExpressions.h"
#include "compiler/codegen/halide/WeightExpressions.h"
#include "runtime/model/ModelAbi.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::Func;
using Halide::ImageParam;
using Halide::RDom;
using Halide::TailStrategy;
using Halide::Var;

static constexpr int pageTokens = HEDDLE_KV_PAGE_SIZE;
// Rows that share each weight that a thread reads.
static constexpr int tileRows = 8;

namespace {
// Names and arguments of one pipeline.
class PipelineBuilder {
public:
  explicit PipelineBuilder(StringRef symbol) : symbol(symbol.str()) {}

  Func func(const char *name) { return Func(symbol + "_" + name); }
  // Extents are known but for the last, 0, which is read from the buffer; so are strides, but for the first.
  ImageParam input(const char *name, Halide::Type type, std::initializer_list<int64_t> extents) {
    ImageParam param(type, int(extents.size()), symbol + "_" + name);
    int d = 0;
    for (int64_t extent : extents) {
      if (extent)
        param.dim(d).set_bounds(0, int(extent));
      else
        param.dim(d).set_min(0);
      ++d;
    }
    pipeline.arguments.push_back(Halide::Argument(param));
    return param;
  }
  WeightExpressions weights(const PackedLayout &layout, int64_t n, int64_t k) {
    WeightExpressions packed(layout, n, k, symbol);
    for (const WeightExpressions::View &view : packed.views())
      pipeline.arguments.push_back(Halide::Argument(view.param));
    return packed;
  }
  ScheduledPipeline finish(Func result) {
    pipeline.results = {result};
    return pipeline;
  }

private:
  std::string symbol;
  ScheduledPipeline pipeline;
};

// Where each row of a step lies in the cache.
struct RowPlaces {
  explicit RowPlaces(PipelineBuilder &b)
      : sequence(b.input("row_sequence", Halide::Int(32), {0})), position(b.input("positions", Halide::Int(32), {0})),
        table(b.input("page_table", Halide::Int(32), {0, 0})) {}
  // The page that holds token `token` of the row's sequence. Indices are what they are bounded to: Halide cannot know.
  Expr page(Expr row, Expr token) {
    return table(Halide::clamp(token / pageTokens, 0, table.dim(0).extent() - 1),
                 Halide::clamp(sequence(row), 0, table.dim(1).extent() - 1));
  }
  Expr numTokens() { return table.dim(0).extent() * pageTokens; }

  ImageParam sequence, position, table;
};
} // namespace

static Halide::Type kvType(KvType kv) {
  return kv == KvType::F32 ? Halide::Type(Halide::Float(32)) : Halide::Type(Halide::UInt(16));
}

FailureOr<std::string> heddle::emitDeviceMatmul(Location loc, const Target &target, StringRef symbol,
                                                const MatmulSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    int n = int(spec.n), k = int(spec.k);
    bool isBf16 = spec.activation == MatmulActivation::Bf16;
    ImageParam act = b.input("act", isBf16 ? Halide::Type(Halide::UInt(16)) : Halide::Type(Halide::Float(32)), {k, 0});
    WeightExpressions weights = b.weights(spec.layout, n, k);
    Var column("column"), row("row");

    // out[row][column] = sum_i act[row][i] W[column][i] + bias[column] + residual[row][column], i ascending
    Func sum = b.func("sum"), out = b.func("out"), weight = b.func("weight"), scale = b.func("scale"),
         min = b.func("min");
    Var index("index"), block("block");
    bool isQuantized = spec.layout.isQuantized(), hasMin = isQuantized && spec.layout.hasMin;
    int blockValues = isQuantized ? spec.layout.block : 1;
    RDom i(0, blockValues, 0, k / blockValues, "i");
    WeightExpressions::Terms terms;
    if (isQuantized) {
      terms = weights.terms(column, block);
      scale(column, block) = terms.scale;
      if (hasMin)
        min(column, block) = terms.min;
      Expr of = index / blockValues;
      terms = {scale(column, of), hasMin ? min(column, of) : Expr()};
    }
    weight(column, index) = weights.at(column, index, terms);
    sum(column, row) = 0.0f;
    Expr value = act(i.y * blockValues + i.x, row);
    sum(column, row) += (isBf16 ? bfloatExpr(value) : value) * weight(column, i.y * blockValues + i.x);
    Expr result = sum(column, row);
    if (spec.hasBias)
      result += b.input("bias", Halide::Float(32), {n})(column);
    if (spec.accumulate)
      result += b.input("residual", Halide::Float(32), {n, 0})(column, row);
    out(column, row) = result;

    // A block is a panel of 16 columns, a thread one column of it and the rows of a tile, which share each weight it unpacks.
    Var panel("panel"), lane("lane"), tile("tile"), inTile("in_tile");
    out.output_buffer().dim(0).set_bounds(0, n);
    out.output_buffer().dim(1).set_min(0);
    out.bound(column, 0, n)
        .split(column, panel, lane, int(PackedLayout::panelRows), TailStrategy::GuardWithIf)
        .split(row, tile, inTile, tileRows, TailStrategy::GuardWithIf)
        .reorder(inTile, lane, panel, tile)
        .gpu_blocks(panel, tile)
        .gpu_threads(lane);
    sum.compute_at(out, lane).bound_storage(row, tileRows).bound_storage(column, 1);
    sum.update().reorder(row, i.x, i.y, column);
    weight.compute_at(sum, i.x);
    if (isQuantized)
      scale.compute_at(sum, i.y);
    if (hasMin)
      min.compute_at(sum, i.y);
    return b.finish(out);
  });
}

FailureOr<std::string> heddle::emitDeviceEmbedding(Location loc, const Target &target, StringRef symbol,
                                                   const EmbeddingSpec &spec, int64_t n) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    ImageParam ids = b.input("ids", Halide::Int(32), {0});
    WeightExpressions weights = b.weights(spec.layout, n, spec.k);
    Var column("column"), row("row");

    // out[row] = scale W[ids[row]]
    Func out = b.func("out");
    Expr weight = weights.at(Halide::clamp(ids(row), 0, int(n) - 1), column);
    out(column, row) = spec.scale == 1 ? weight : weight * spec.scale;

    // A block is a row and 64 of its columns.
    Var block("block"), thread("thread");
    out.output_buffer().dim(0).set_bounds(0, int(spec.k));
    out.output_buffer().dim(1).set_min(0);
    out.bound(column, 0, int(spec.k))
        .split(column, block, thread, 64, TailStrategy::GuardWithIf)
        .gpu_blocks(block, row)
        .gpu_threads(thread);
    return b.finish(out);
  });
}

FailureOr<std::string> heddle::emitDeviceKvAppend(Location loc, const Target &target, StringRef symbol,
                                                  const KvAppendSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    int heads = int(spec.numKvHeads), headDim = int(spec.headDim);
    ImageParam values = b.input("values", Halide::Float(32), {headDim, heads, 0});
    RowPlaces places(b);
    Var d("d"), slot("slot"), head("head"), page("page");

    // pages[page of row][head][slot of row][d] = values[row][head][d]
    Func out = b.func("pages");
    RDom r(0, headDim, 0, heads, 0, values.dim(2).extent(), "r");
    Expr value = values(r.x, r.y, r.z), position = places.position(r.z);
    if (spec.kv != KvType::F32)
      value = spec.kv == KvType::BF16 ? bfloatBits(value) : halfBits(value);
    out(d, slot, head, page) = Halide::undef(kvType(spec.kv));
    Expr lastPage = out.output_buffer().dim(3).extent() - 1;
    out(r.x, position % pageTokens, r.y, Halide::clamp(places.page(r.z, position), 0, lastPage)) = value;

    // A block is a head of a row. No two rows have the same place.
    out.output_buffer().dim(0).set_bounds(0, headDim);
    out.output_buffer().dim(1).set_bounds(0, pageTokens).set_stride(headDim);
    out.output_buffer().dim(2).set_bounds(0, heads).set_stride(headDim * pageTokens);
    out.output_buffer().dim(3).set_min(0);
    out.update().allow_race_conditions().gpu_blocks(r.y, r.z).gpu_threads(r.x);
    return b.finish(out);
  });
}

FailureOr<std::string> heddle::emitDeviceAttention(Location loc, const Target &target, StringRef symbol,
                                                   const AttentionSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    int heads = int(spec.numHeads), kvHeads = int(spec.numKvHeads), headDim = int(spec.headDim),
        group = int(spec.group());
    ImageParam query = b.input("query", Halide::Float(32), {headDim, heads, 0});
    ImageParam pages[] = {b.input("keys", kvType(spec.kv), {headDim, pageTokens, kvHeads, 0}),
                          b.input("values", kvType(spec.kv), {headDim, pageTokens, kvHeads, 0})};
    for (ImageParam &param : pages) {
      param.dim(1).set_stride(headDim);
      param.dim(2).set_stride(headDim * pageTokens);
    }
    RowPlaces places(b);
    Var d("d"), head("head"), row("row"), token("token");
    // Element d of token `token` of the row's sequence, of its KV head.
    auto cached = [&](ImageParam &param, Expr index, Expr at) {
      Expr page = Halide::clamp(places.page(row, at), 0, param.dim(3).extent() - 1);
      Expr value = param(index, at % pageTokens, head / group, page);
      return spec.kv == KvType::F32 ? value : spec.kv == KvType::BF16 ? bfloatExpr(value) : halfExpr(value);
    };

    // score[j] = scale query . key[j], for the tokens j that the row sees; twice, since neither pass keeps them all
    auto scoreFunc = [&](const char *name) {
      Func dot = b.func(name);
      RDom i(0, headDim, "i");
      dot(token, head, row) = 0.0f;
      dot(token, head, row) += query(i, head, row) * cached(pages[0], i, token);
      return dot;
    };
    auto score = [&](Func dot, Expr at) {
      Expr value = dot(at, head, row) * float(spec.scale);
      return spec.softcap == 0 ? value : float(spec.softcap) * tanhExpr(value / float(spec.softcap));
    };
    auto tokens = [&] {
      RDom j(0, places.numTokens(), "j");
      j.where(j <= places.position(row));
      if (spec.window)
        j.where(j > places.position(row) - int(spec.window));
      return j;
    };
    // maximum = max_j score[j]
    Func firstDot = scoreFunc("first_dot"), maximum = b.func("maximum");
    RDom j = tokens();
    maximum(head, row) = Halide::Float(32).min();
    maximum(head, row) = Halide::max(maximum(head, row), score(firstDot, j));
    // weight[j] = exp(score[j] - maximum); sum[d] = sum_j weight[j] value[j][d], and sum[head_dim] = sum_j weight[j]
    Func secondDot = scoreFunc("second_dot"), weight = b.func("weight"), sum = b.func("sum"), out = b.func("out");
    weight(token, head, row) = expExpr(score(secondDot, token) - maximum(head, row));
    RDom l = tokens();
    sum(d, head, row) = 0.0f;
    sum(d, head, row) +=
        weight(l, head, row) * Halide::select(d < headDim, cached(pages[1], Halide::min(d, headDim - 1), l), 1.0f);
    out(d, head, row) = sum(d, head, row) / sum(headDim, head, row);

    // A block is a row, a thread a head of it with everything it needs in its own memory.
    out.output_buffer().dim(0).set_bounds(0, headDim);
    out.output_buffer().dim(1).set_bounds(0, heads).set_stride(headDim);
    out.output_buffer().dim(2).set_min(0);
    out.bound(d, 0, headDim).bound(head, 0, heads).gpu_blocks(row).gpu_threads(head);
    maximum.compute_at(out, head);
    sum.bound(d, 0, headDim + 1).compute_at(out, head);
    sum.update().reorder(d, l, head, row);
    firstDot.compute_at(maximum, j);
    secondDot.compute_at(sum, l);
    weight.compute_at(sum, l);
    return b.finish(out);
  });
}
