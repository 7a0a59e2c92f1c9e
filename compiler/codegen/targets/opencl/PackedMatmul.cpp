// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products with packed weights, by Halide: the portable form of `packed_matmul` on devices.

#include "compiler/codegen/halide/DevicePipeline.h"
#include "compiler/codegen/halide/Enqueuer.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/opencl/MatmulExpressions.h"
#include "compiler/codegen/targets/opencl/OpenClKernels.h"

using namespace heddle;
using namespace mlir;
using Halide::Expr;
using Halide::Func;
using Halide::ImageParam;
using Halide::RDom;
using Halide::TailStrategy;
using Halide::Var;

// (act (k, rows) f32 or bf16, weights through each of packedViews, [bias (n)], [residual (n, rows), which may be the result itself])
//   -> (n, rows)
static FailureOr<std::string> emitMatmul(Location loc, const Target &target, StringRef symbol, const MatmulSpec &spec,
                                         int tileRows) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    int n = int(spec.n), k = int(spec.k);
    bool isBf16 = spec.activation == MatmulActivation::Bf16;
    ImageParam act = b.input("act", isBf16 ? Halide::Type(Halide::UInt(16)) : Halide::Type(Halide::Float(32)), {k, 0});
    WeightExpressions weights = b.weights(spec.layout, spec.weightRows(), k);
    Var column("column"), row("row");

    // sum[row][column] = sum_i act[row][i] W[r][i], i ascending, for each of the column's rows r of W: one, or a gate's and an up projection's
    Func sum = b.func("sum"), out = b.func("out"), weight = b.func("weight"), scale = b.func("scale"),
         min = b.func("min");
    Var index("index"), block("block");
    bool isQuantized = spec.layout.isQuantized(), hasMin = isQuantized && spec.layout.hasMin;
    int blockValues = isQuantized ? spec.layout.block : 1;
    RDom i(0, blockValues, 0, k / blockValues, "i");
    std::vector<std::pair<Expr, Expr>> rows = opencl::rowsOfColumn(spec, column);
    size_t count = rows.size();
    std::vector<Expr> zeros(count, 0.0f), scales, mins, numbers, sums;
    for (size_t r = 0; isQuantized && r < count; ++r) {
      WeightExpressions::Terms terms = weights.terms(rows[r].first, block);
      scales.push_back(terms.scale);
      mins.push_back(terms.min);
    }
    if (isQuantized)
      scale(column, block) = Halide::Tuple(scales);
    if (hasMin)
      min(column, block) = Halide::Tuple(mins);
    for (size_t r = 0; r < count; ++r) {
      WeightExpressions::Terms terms;
      Expr of = index / blockValues;
      if (isQuantized)
        terms = {opencl::valueOf(scale(column, of), r, count),
                 hasMin ? opencl::valueOf(min(column, of), r, count) : Expr()};
      numbers.push_back(weights.at(rows[r].first, index, terms));
    }
    weight(column, index) = Halide::Tuple(numbers);
    sum(column, row) = Halide::Tuple(zeros);
    Expr value = act(i.y * blockValues + i.x, row);
    for (size_t r = 0; r < count; ++r)
      sums.push_back(opencl::valueOf(sum(column, row), r, count) +
                     (isBf16 ? bfloatExpr(value) : value) *
                         opencl::valueOf(weight(column, i.y * blockValues + i.x), r, count));
    sum(column, row) = Halide::Tuple(sums);

    // out[row][column] = activation(sum[row][column] + bias[column]) [* the up projection's] + residual[row][column]
    std::vector<Expr> results;
    for (size_t r = 0; r < count; ++r)
      results.push_back(opencl::valueOf(sum(column, row), r, count));
    if (spec.hasBias)
      results[0] += b.input("bias", Halide::Float(32), {n})(column);
    Expr result = opencl::finished(spec, results);
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

namespace {

class PackedMatmul : public opencl::DeviceEmitterOf<PackedMatmulOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

  bool canEmit(Operation *op, std::string &missing) const override {
    auto matmul = dyn_cast<PackedMatmulOp>(op);
    if (matmul && matmul.getInputScales())
      missing = "with 8-bit activations";
    if (matmul && matmul.getRoom())
      missing = "that prepares its rows";
    return missing.empty();
  }

protected:
  FailureOr<std::string> nameOf(PackedMatmulOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(PackedMatmulOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;
};

} // namespace

FailureOr<Kernels> PackedMatmul::build(PackedMatmulOp op, ScheduleAttr schedule, StringRef name,
                                       KernelModule &module) const {
  FailureOr<MatmulSpec> spec = specOf(op);
  if (failed(spec))
    return failure();
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    std::string symbol = (name + "_device").str();
    int rows = schedule.getTile(TileRole::Threads).getRows().front();
    if (failed(module.addObject(name, emitMatmul(op.getLoc(), target, symbol, *spec, rows))))
      return failure();
    HostKernelOf<MatmulCall, Enqueuer> host(op.getLoc(), module.code, name);
    const MatmulCall &call = host.call;
    host.addRows(spec->activation == MatmulActivation::Bf16 ? bf16Element : f32Element, call.act, spec->k,
                 call.actStride, call.rows);
    host.addWeights(call.weights, spec->layout, spec->weightRows(), spec->k);
    if (spec->hasBias)
      host.addVector(f32Element, call.bias, host.constant(spec->n));
    if (spec->accumulate)
      host.addRows(f32Element, call.out, spec->n, call.outStride, call.rows);
    host.addRows(f32Element, call.out, spec->n, call.outStride, call.rows);
    host.enqueue(symbol);
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::packedMatmul(const Target &target) {
  return std::make_unique<PackedMatmul>(target);
}
