// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of experts, by Halide: one launch for all of them, in which a thread looks up the expert of its entry.

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

namespace {

// The inputs of a pipeline: (act (k, rows or entries) f32 or bf16, weights of all experts through each of packedViews, [bias (rows of an
// expert, num_experts)], offsets (num_experts + 1), row_index (entries), row_scale (entries)).
struct ExpertInputs {
  ExpertInputs(PipelineBuilder &b, const MatmulSpec &spec, int64_t numExperts)
      : spec(spec), numExperts(int(numExperts)), act(b.input("act", activationType(), {spec.k, 0})),
        weights(b.weights(spec.layout, numExperts * packedRows(spec), spec.k)) {
    if (spec.hasBias)
      bias = b.input("bias", Halide::Float(32), {biasRows(spec), numExperts});
    offsets = b.input("offsets", Halide::Int(32), {numExperts + 1});
    rowIndex = b.input("row_index", Halide::Int(32), {0});
    rowScale = b.input("row_scale", Halide::Float(32), {0});
  }

  // Rows of an expert, and those that its panels have.
  static int64_t biasRows(const MatmulSpec &spec) { return (spec.isGated ? 2 : 1) * spec.n; }
  static int64_t packedRows(const MatmulSpec &spec) {
    return (spec.isGated ? 2 : 1) * spec.layout.numPanels(spec.n) * PackedLayout::panelRows;
  }

  Expr activation(Expr column, Expr row) const {
    Expr value = act(column, row);
    return spec.activation == MatmulActivation::Bf16 ? bfloatExpr(value) : value;
  }
  // Of an entry; the last one for entries that are not listed.
  Expr numListed() const { return offsets(numExperts); }
  Expr rowOf(Expr entry, Expr numRows) const { return Halide::clamp(rowIndex(entry), 0, numRows - 1); }
  // Row `row` of `expert`, among those of all.
  Expr packedRow(Expr expert, Expr row) const { return expert * int(packedRows(spec)) + row; }

  const MatmulSpec &spec;
  int numExperts;
  ImageParam act;
  WeightExpressions weights;
  ImageParam bias, offsets, rowIndex, rowScale;

private:
  Halide::Type activationType() const {
    return spec.activation == MatmulActivation::Bf16 ? Halide::Type(Halide::UInt(16)) : Halide::Type(Halide::Float(32));
  }
};

} // namespace

// A block is a panel of 16 columns of a row of `out`, a thread one of them.
static void scheduleColumns(Func out, const Var &column, const Var &row, int64_t n, Var &lane) {
  Var panel("panel");
  out.output_buffer().dim(0).set_bounds(0, int(n));
  out.output_buffer().dim(1).set_min(0);
  out.bound(column, 0, int(n))
      .split(column, panel, lane, int(PackedLayout::panelRows), TailStrategy::GuardWithIf)
      .gpu_blocks(panel, row)
      .gpu_threads(lane);
}

// (ExpertInputs, act by rows) -> (n, entries): activation(gate) * up, or activation(gate)
static FailureOr<std::string> emitGathered(Location loc, const Target &target, StringRef symbol, const MatmulSpec &spec,
                                           int64_t numExperts) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    ExpertInputs in(b, spec, numExperts);
    Var column("column"), entry("entry"), lane("lane");
    // expert = how many lists end at or before the entry
    Func expert = b.func("expert"), sums = b.func("sums"), out = b.func("out");
    RDom e(1, int(numExperts), "e"), i(0, int(spec.k), "i");
    expert(entry) = 0;
    expert(entry) += Halide::cast<int32_t>(in.offsets(e) <= entry);
    Expr its = Halide::clamp(expert(entry), 0, in.numExperts - 1), row = in.rowOf(entry, in.act.dim(1).extent());
    std::vector<std::pair<Expr, Expr>> rows = opencl::rowsOfColumn(spec, column);
    Expr value = in.activation(i, row);
    if (spec.scalesInput)
      value *= in.rowScale(entry);
    // sums = act[row of entry] . W_e[row], for each of the column's rows
    std::vector<Expr> zeros(rows.size(), 0.0f), terms;
    sums(column, entry) = Halide::Tuple(zeros);
    for (size_t r = 0; r < rows.size(); ++r)
      terms.push_back(opencl::valueOf(sums(column, entry), r, rows.size()) +
                      value * in.weights.at(in.packedRow(its, rows[r].first), i));
    sums(column, entry) = Halide::Tuple(terms);
    std::vector<Expr> results;
    for (size_t r = 0; r < rows.size(); ++r) {
      Expr sum = opencl::valueOf(sums(column, entry), r, rows.size());
      results.push_back(spec.hasBias ? sum + in.bias(rows[r].second, its) : sum);
    }
    out(column, entry) = opencl::finished(spec, results);

    scheduleColumns(out, column, entry, spec.n, lane);
    expert.compute_at(out, lane).bound_storage(entry, 1);
    sums.compute_at(out, lane).bound_storage(column, 1).bound_storage(entry, 1);
    return b.finish(out);
  });
}

// (ExpertInputs, act by entries, held (n, rows), which may be the result itself and is not read unless it is accumulated to)
//   -> (n, rows): the sum over a row's entries, in the order of the list, of row_scale * product, or where the input was scaled of the product
static FailureOr<std::string> emitScattered(Location loc, const Target &target, StringRef symbol,
                                            const MatmulSpec &spec, int64_t numExperts, bool accumulates) {
  return emitPipeline(loc, target, symbol, [&]() -> FailureOr<ScheduledPipeline> {
    PipelineBuilder b(symbol);
    ExpertInputs in(b, spec, numExperts);
    ImageParam held;
    if (accumulates)
      held = b.input("held", Halide::Float(32), {spec.n, 0});
    Var column("column"), row("row"), entry("entry"), lane("lane");
    Func expert = b.func("expert"), product = b.func("product"), sum = b.func("sum"), out = b.func("out");
    RDom e(1, int(numExperts), "e"), i(0, int(spec.k), "i"), p(0, in.rowIndex.dim(0).extent(), "p");
    expert(entry) = 0;
    expert(entry) += Halide::cast<int32_t>(in.offsets(e) <= entry);
    Expr its = Halide::clamp(expert(entry), 0, in.numExperts - 1);
    product(entry, column) = 0.0f;
    product(entry, column) += in.activation(i, entry) * in.weights.at(in.packedRow(its, column), i);
    p.where(in.rowIndex(p) == row && p < in.numListed());
    Expr result = product(p, column);
    if (spec.hasBias)
      result += in.bias(column, Halide::clamp(expert(p), 0, in.numExperts - 1));
    sum(column, row) = accumulates ? held(column, row) : Expr(0.0f);
    sum(column, row) += spec.scalesInput ? result : in.rowScale(p) * result;
    out(column, row) = sum(column, row);

    scheduleColumns(out, column, row, spec.n, lane);
    sum.compute_at(out, lane).bound_storage(column, 1).bound_storage(row, 1);
    expert.compute_at(sum, p).bound_storage(entry, 1);
    product.compute_at(sum, p).bound_storage(entry, 1).bound_storage(column, 1);
    return b.finish(out);
  });
}

namespace {

class ExpertMatmul : public opencl::DeviceEmitterOf<ExpertMatmulOp> {
public:
  using DeviceEmitterOf::DeviceEmitterOf;

  bool canEmit(Operation *op, std::string &missing) const override {
    auto matmul = dyn_cast<ExpertMatmulOp>(op);
    if (matmul && matmul.getInputScales())
      missing = "with 8-bit activations";
    return missing.empty();
  }

protected:
  FailureOr<std::string> nameOf(ExpertMatmulOp op) const override {
    return signatureOf(op) + "_e" + std::to_string(op.getNumExperts()) + (op.getAccumulate() ? "_add" : "");
  }
  FailureOr<Kernels> build(ExpertMatmulOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;
};

} // namespace

FailureOr<Kernels> ExpertMatmul::build(ExpertMatmulOp op, ScheduleAttr schedule, StringRef name,
                                       KernelModule &module) const {
  FailureOr<MatmulSpec> spec = specOf(op);
  if (failed(spec))
    return failure();
  return oneKernel(module.once(name, [&]() -> FailureOr<func::FuncOp> {
    std::string symbol = (name + "_device").str();
    bool gathers = spec->rows == MatmulRows::Gathered, accumulates = op.getAccumulate();
    int64_t experts = op.getNumExperts(), topK = op.getTopK();
    if (failed(module.addObject(name, gathers
                                          ? emitGathered(op.getLoc(), target, symbol, *spec, experts)
                                          : emitScattered(op.getLoc(), target, symbol, *spec, experts, accumulates))))
      return failure();
    HostKernelOf<ExpertsCall, Enqueuer> host(op.getLoc(), module.code, name);
    const ExpertsCall &call = host.call;
    Value entries = host.builder().mul(call.rows, topK);
    host.addRows(spec->activation == MatmulActivation::Bf16 ? bf16Element : f32Element, call.act, spec->k,
                 call.actStride, gathers ? call.rows : entries);
    host.addWeights(call.weights, spec->layout, experts * ExpertInputs::packedRows(*spec), spec->k);
    if (spec->hasBias) {
      int64_t width = ExpertInputs::biasRows(*spec);
      host.addRows(f32Element, call.bias, width, host.constant(width), host.constant(experts));
    }
    host.addVector(i32Element, call.offsets, host.constant(experts + 1));
    host.addVector(i32Element, call.rowIndex, entries);
    host.addVector(f32Element, call.rowScale, entries);
    if (accumulates)
      host.addRows(f32Element, call.out, spec->n, call.outStride, call.rows);
    host.addRows(f32Element, call.out, spec->n, call.outStride, gathers ? entries : call.rows);
    host.enqueue(symbol);
    return host.finish();
  }));
}

std::unique_ptr<KernelEmitter> heddle::opencl::expertMatmul(const Target &target) {
  return std::make_unique<ExpertMatmul>(target);
}
