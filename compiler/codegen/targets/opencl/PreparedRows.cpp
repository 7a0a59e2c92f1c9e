// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each block adds up the squares of its rows again: they lie in a cache, and are a fraction of the weights. Sums do not depend on the rows beside.

#include "compiler/codegen/targets/opencl/PreparedRows.h"

#include "llvm/Support/MathExtras.h"

using namespace heddle;
using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

// Threads of a block, along each of two dimensions.
static constexpr int side = 16;

opencl::PreparedRows::PreparedRows(PipelineBuilder &b, const MatmulSpec &spec, Halide::ImageParam act, int rows)
    : spec(spec), act(act), rows(rows) {
  if (!spec.prepares || !spec.prepares->hasNorm)
    return;
  norm = b.input("norm", Halide::Float(32), {spec.k});
  squares = b.func("squares"), sums = b.func("sums"), scale = b.func("scale");
  // squares = sum x^2 of every 256th column; sums of a lane's threads; scale = 1 / sqrt(mean x^2 + eps)
  int k = int(spec.k), threads = side * side;
  RDom i(0, int(llvm::divideCeil(k, threads)), "i"), s(0, side, "s"), l(0, side, "l");
  Expr column = i * threads + share * side + lane;
  if (k % threads)
    i.where(column < k);
  Expr x = act(Halide::min(column, k - 1), Halide::min(number * rows + ofTile, act.dim(1).extent() - 1));
  squares(lane, share, ofTile, number) = 0.0f;
  squares(lane, share, ofTile, number) += x * x;
  sums(lane, ofTile, number) = 0.0f;
  sums(lane, ofTile, number) += squares(lane, s, ofTile, number);
  Func total = b.func("total_squares");
  total(ofTile, number) = 0.0f;
  total(ofTile, number) += sums(l, ofTile, number);
  scale(ofTile, number) = 1.0f / Halide::sqrt(total(ofTile, number) / float(k) + float(spec.prepares->eps));
}

Expr opencl::PreparedRows::at(Expr k, Expr row) const {
  Expr value = act(k, Halide::min(row, act.dim(1).extent() - 1));
  if (norm.defined()) {
    Expr factor = norm(k);
    if (spec.prepares->weightOffset != 0)
      factor += float(spec.prepares->weightOffset);
    value = value * scale(row % rows, row / rows) * factor;
  }
  return spec.activation == MatmulActivation::Bf16 ? bfloatExpr(bfloatBits(value)) : value;
}

void opencl::PreparedRows::computeAt(const Halide::LoopLevel &block) {
  if (!norm.defined())
    return;
  auto shared = [&](Func func) -> Func & {
    return func.compute_at(block)
        .store_in(Halide::MemoryType::GPUShared)
        .bound(ofTile, 0, rows)
        .bound_extent(number, 1);
  };
  shared(squares)
      .bound(lane, 0, side)
      .bound(share, 0, side)
      .reorder(ofTile, lane, share, number)
      .gpu_threads(lane, share);
  squares.update().reorder(squares.rvars()[0], ofTile, lane, share, number).gpu_threads(lane, share);
  shared(sums).bound(lane, 0, side).reorder(ofTile, lane, number).gpu_threads(lane);
  sums.update().reorder(sums.rvars()[0], ofTile, lane, number).gpu_threads(lane);
  shared(scale).gpu_threads(ofTile);
}

mlir::FailureOr<std::string> opencl::emitPreparation(mlir::Location loc, const Target &target, llvm::StringRef symbol,
                                                     const MatmulSpec &spec) {
  return emitPipeline(loc, target, symbol, [&]() -> mlir::FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    Halide::ImageParam act = b.input("act", Halide::Float(32), {spec.k, 0});
    PreparedRows prepared(b, spec, act, /*rows=*/1);
    Func out = b.func("out");
    Var column("column"), row("row"), round("round"), thread("thread"), lane("lane"), share("share");
    Expr value = prepared.at(column, row);
    out(column, row) = spec.activation == MatmulActivation::Bf16 ? bfloatBits(value) : value;
    out.output_buffer().dim(0).set_bounds(0, int(spec.k));
    out.output_buffer().dim(1).set_min(0);
    out.bound(column, 0, int(spec.k))
        .never_partition_all()
        .split(column, round, thread, side * side, Halide::TailStrategy::GuardWithIf)
        .split(thread, share, lane, side)
        .reorder(round, lane, share, row)
        .gpu_blocks(row)
        .gpu_threads(lane, share);
    prepared.computeAt(Halide::LoopLevel(out, row));
    return b.finish(out);
  });
}
