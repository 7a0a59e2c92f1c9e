// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two passes over the keys, the first of which finds the greatest score: neither keeps all scores, since nobody knows how many there are.

#include "compiler/codegen/targets/opencl/SoftmaxAttention.h"

#include "compiler/codegen/halide/ScalarExpressions.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

using namespace heddle;
using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

Expr heddle::isInMask(const AttentionSpec &spec, Expr query, Expr key) {
  Expr isIn = spec.causal ? key <= query : Halide::Internal::const_true();
  if (spec.window)
    isIn = isIn && query - key < int(spec.window);
  if (spec.ahead)
    isIn = isIn && key - query < int(spec.ahead);
  if (spec.chunk)
    isIn = isIn && key / int(spec.chunk) == query / int(spec.chunk);
  return isIn;
}

// Rows of a table of buckets.
static int64_t numBuckets(const PositionSpec &positions) {
  return positions.kind == PositionSpec::Tokens ? positions.numBuckets : *llvm::max_element(positions.rows) + 1;
}

llvm::SmallVector<float> heddle::numbersInCode(mlir::Value table) {
  auto named = table ? table.getDefiningOp<mlir::memref::GetGlobalOp>() : mlir::memref::GetGlobalOp();
  if (!named)
    return {};
  auto global = mlir::SymbolTable::lookupNearestSymbolFrom<mlir::memref::GlobalOp>(named, named.getNameAttr());
  auto values = global ? mlir::dyn_cast_or_null<mlir::DenseFPElementsAttr>(global.getInitialValueAttr()) : nullptr;
  return values ? llvm::to_vector(values.getValues<float>()) : llvm::SmallVector<float>();
}

std::string heddle::nameOfNumbersInCode(mlir::Value table) {
  llvm::SmallVector<float> numbers = numbersInCode(table);
  llvm::StringRef bytes(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(float));
  return numbers.empty() ? "" : "_" + llvm::utohexstr(llvm::xxh3_64bits(bytes));
}

DeviceScoreTerms::DeviceScoreTerms(PipelineBuilder &b, const AttentionSpec &spec, llvm::ArrayRef<float> slopes)
    : spec(spec), slopes(slopes) {
  if (spec.hasSinks)
    sinks = b.input("sinks", Halide::Float(32), {spec.numHeads});
  if (spec.positions.kind == PositionSpec::Slopes && slopes.empty())
    positions = b.input("position_terms", Halide::Float(32), {spec.numHeads});
  else if (spec.positions.kind == PositionSpec::Buckets)
    positions = b.input("position_terms", kvType(spec.positions.table), {spec.numHeads, numBuckets(spec.positions)});
  else if (spec.positions.kind == PositionSpec::Tokens)
    positions = b.input("position_terms", Halide::Float(32), {spec.positions.numBuckets, spec.numHeads, 2, 0});
}

Expr DeviceScoreTerms::at(const AttendedKeys &keys, Expr key) const {
  const PositionSpec &of = spec.positions;
  Expr distance = keys.distance(key);
  if (of.kind == PositionSpec::Slopes) {
    Expr slope = slopes.empty() ? Expr(positions(keys.head)) : Expr(slopes.front());
    for (auto [head, value] : llvm::enumerate(slopes.drop_front(slopes.empty() ? 0 : 1)))
      slope = Halide::select(keys.head == int(head) + 1, value, slope);
    return slope * Halide::cast<float>(-distance);
  }
  Expr bucket = int(of.rows.front());
  for (auto [start, row] : llvm::zip_equal(of.starts, llvm::ArrayRef(of.rows).drop_front()))
    bucket = Halide::select(distance >= int(start), int(row), bucket);
  if (of.kind == PositionSpec::Buckets)
    return cachedExpr(of.table, positions(keys.head, bucket));
  return positions(bucket, keys.head, 0, keys.row) + positions(bucket, keys.head, 1, key);
}

void heddle::addScoreTerms(Enqueuer &host, const AttentionSpec &spec, mlir::Value sinks, mlir::Value positions,
                           mlir::Value positionsRow, mlir::Value rows) {
  mlir::Value heads = host.constant(spec.numHeads), one = host.constant(1);
  const PositionSpec &of = spec.positions;
  if (spec.hasSinks)
    host.addVector(f32Element, sinks, heads);
  if (of.kind == PositionSpec::Slopes && positions)
    host.addVector(f32Element, positions, heads);
  else if (of.kind == PositionSpec::Buckets)
    host.addRows(kvElement(of.table), positions, spec.numHeads, heads, host.constant(numBuckets(of)));
  else if (of.kind == PositionSpec::Tokens)
    host.add(f32Element, positions,
             {{host.constant(of.numBuckets), one},
              {heads, host.constant(of.numBuckets)},
              {host.constant(2), host.constant(of.numBuckets * spec.numHeads)},
              {rows, positionsRow}});
}

Func heddle::softmaxAttention(PipelineBuilder &b, const AttentionSpec &spec, const AttendedKeys &keys,
                              const DeviceScoreTerms &terms, const std::function<Expr(Var d, Expr value)> &finish) {
  int heads = int(spec.numHeads), headDim = int(spec.headDim), valueDim = int(spec.valueDim());
  Var d("d"), token("token");
  const Var &head = keys.head, &row = keys.row;

  // score[j] = softcap(scale query . key[j]) + terms, for the keys j that the row sees; twice, since neither pass keeps them all
  auto scoreFunc = [&](const char *name) {
    Func dot = b.func(name);
    RDom i(0, headDim, "i");
    dot(token, head, row) = 0.0f;
    dot(token, head, row) += keys.query(i) * keys.key(i, token);
    return dot;
  };
  auto score = [&](const Func &dot, Expr at) {
    Expr value = dot(at, head, row) * float(spec.scale);
    if (spec.softcap != 0)
      value = float(spec.softcap) * tanhExpr(value / float(spec.softcap));
    return spec.positions.kind ? value + terms.at(keys, at) : value;
  };
  auto seenKeys = [&] {
    RDom j(0, keys.numKeys, "j");
    j.where(keys.isSeen(j));
    return j;
  };
  // maximum = max_j score[j], and a sink's
  Func firstDot = scoreFunc("first_dot"), maximum = b.func("maximum");
  RDom j = seenKeys();
  maximum(head, row) = spec.hasSinks ? terms.sinks(head) : Halide::Float(32).min();
  maximum(head, row) = Halide::max(maximum(head, row), score(firstDot, j));
  // weight[j] = exp(score[j] - maximum); sum[d] = sum_j weight[j] value[j][d], and sum[value_dim] = sum_j weight[j]
  Func secondDot = scoreFunc("second_dot"), weight = b.func("weight"), sum = b.func("sum"), out = b.func("out");
  weight(token, head, row) = expExpr(score(secondDot, token) - maximum(head, row));
  RDom l = seenKeys();
  sum(d, head, row) =
      spec.hasSinks ? Halide::select(d < valueDim, 0.0f, expExpr(terms.sinks(head) - maximum(head, row))) : Expr(0.0f);
  sum(d, head, row) +=
      weight(l, head, row) * Halide::select(d < valueDim, keys.value(Halide::min(d, valueDim - 1), l), 1.0f);
  Expr total = sum(valueDim, head, row), result = sum(d, head, row) / Halide::select(total == 0.0f, 1.0f, total);
  out(d, head, row) = finish ? finish(d, result) : result;

  // A block is a row, a thread a head of it with everything it needs in its own memory: of one row, head and key, which Halide cannot see
  // where a mask bounds them.
  out.output_buffer().dim(0).set_bounds(0, valueDim);
  out.output_buffer().dim(1).set_bounds(0, heads).set_stride(valueDim);
  out.output_buffer().dim(2).set_min(0);
  out.bound(d, 0, valueDim).bound(head, 0, heads).gpu_blocks(row).gpu_threads(head);
  maximum.compute_at(out, head);
  sum.bound(d, 0, valueDim + 1).compute_at(out, head);
  sum.update().reorder(d, l, head, row);
  firstDot.compute_at(maximum, j);
  secondDot.compute_at(sum, l);
  weight.compute_at(sum, l);
  for (Func kept : {firstDot, secondDot, weight, maximum, sum})
    kept.bound_storage(head, 1).bound_storage(row, 1);
  for (Func ofKey : {firstDot, secondDot, weight})
    ofKey.bound_storage(token, 1);
  return out;
}
