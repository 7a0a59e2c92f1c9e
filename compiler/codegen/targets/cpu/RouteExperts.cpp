// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/RouteExperts.h"

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/VectorMath.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/KernelBuilder.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/FormatVariadic.h"

#include <limits>

using namespace mlir;
using namespace heddle;

namespace {
// The scratch that a row is routed in; experts are padded to whole vectors with -inf. Scores are what experts are chosen
// by: the logits, or where these are corrected what comes of it.
struct Scratch {
  Value scores, exponentials, taken;
  Value groupScores, groupTaken;
  int64_t chunks;
};
} // namespace

static Value loadIndex(KernelBuilder &b, Value address) {
  return arith::ExtUIOp::create(b, b.i64, b.load(b.i32, address));
}

static void copyLogits(KernelBuilder &b, const MoeRouteSpec &spec, Value logits, const Scratch &scratch) {
  b.loop(b.index(0), b.index(spec.numExperts), 1, [&](Value expert) {
    Value offset = b.mul(expert, 4);
    b.store(b.load(b.f32, b.at(logits, offset)), b.at(scratch.scores, offset));
    b.store(b.int32(0), b.at(scratch.taken, offset));
  });
}

// Writes exp(logit - largest) for all experts and returns their sum.
static Value exponentiate(KernelBuilder &b, const Scratch &scratch) {
  Value end = b.index(scratch.chunks);
  Value lowest = b.splatReal(-std::numeric_limits<float>::infinity());
  SmallVector<Value> largest = b.loop(b.index(0), end, 1, lowest, [&](Value chunk, ArrayRef<Value> carried) {
    Value logits = b.load(b.v16f32, b.at(scratch.scores, b.mul(chunk, 64)));
    return SmallVector<Value>{arith::MaximumFOp::create(b, carried[0], logits)};
  });
  Value top = b.splat(vector::ReductionOp::create(b, vector::CombiningKind::MAXIMUMF, largest[0]));
  SmallVector<Value> sums = b.loop(b.index(0), end, 1, b.splatReal(0), [&](Value chunk, ArrayRef<Value> carried) {
    Value offset = b.mul(chunk, 64);
    Value values = emitExpOfNegative(b, b.sub(b.load(b.v16f32, b.at(scratch.scores, offset)), top));
    b.store(values, b.at(scratch.exponentials, offset));
    return SmallVector<Value>{b.add(carried[0], values)};
  });
  return vector::ReductionOp::create(b, vector::CombiningKind::ADD, sums[0]);
}

// Writes 1 / (1 + exp(-logit)) for all experts.
static void applySigmoid(KernelBuilder &b, const Scratch &scratch) {
  b.loop(b.index(0), b.index(scratch.chunks), 1, [&](Value chunk) {
    Value offset = b.mul(chunk, 64);
    b.store(emitSigmoid(b, b.load(b.v16f32, b.at(scratch.scores, offset))), b.at(scratch.exponentials, offset));
  });
}

// score = weight + correction
static void correctScores(KernelBuilder &b, const MoeRouteSpec &spec, Value correction, Value total,
                          const Scratch &scratch) {
  b.loop(b.index(0), b.index(spec.numExperts), 1, [&](Value expert) {
    Value offset = b.mul(expert, 4), weight = b.load(b.f32, b.at(scratch.exponentials, offset));
    if (total)
      weight = arith::DivFOp::create(b, weight, total);
    b.store(b.add(weight, b.load(b.f32, b.at(correction, offset))), b.at(scratch.scores, offset));
  });
}

// The index of the largest score that is not taken yet; it is taken. The first free one stands if no score compares (NaN).
static Value takeLargest(KernelBuilder &b, int64_t count, Value scores, Value taken) {
  Value none = b.index(-1);
  SmallVector<Value> best =
      b.loop(b.index(0), b.index(count), 1, {none, b.real(0)}, [&](Value index, ArrayRef<Value> carried) {
        Value offset = b.mul(index, 4), score = b.load(b.f32, b.at(scores, offset));
        auto equal = arith::CmpIPredicate::eq;
        Value free = arith::CmpIOp::create(b, equal, b.load(b.i32, b.at(taken, offset)), b.int32(0));
        Value first = arith::CmpIOp::create(b, equal, carried[0], none);
        Value larger = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, score, carried[1]);
        Value better = arith::AndIOp::create(b, free, arith::OrIOp::create(b, first, larger));
        return SmallVector<Value>{arith::SelectOp::create(b, better, index, carried[0]),
                                  arith::SelectOp::create(b, better, score, carried[1])};
      });
  b.store(b.int32(1), b.at(taken, b.mul(best[0], 4)));
  return best[0];
}

// What a sparse mixer divides an expert's weight of 1 by: the expert's logit is `own`, those of the experts that are not taken compete with it.
static Value sumOfNeighbours(KernelBuilder &b, float jitter, Value own, const Scratch &scratch) {
  Value all = b.splat(own), zero = b.splatReal(0);
  SmallVector<Value> sums =
      b.loop(b.index(0), b.index(scratch.chunks), 1, zero, [&](Value chunk, ArrayRef<Value> carried) {
        Value offset = b.mul(chunk, 64), logits = b.load(b.v16f32, b.at(scratch.scores, offset));
        Value below = b.sub(all, logits), size = arith::MaximumFOp::create(b, math::AbsFOp::create(b, logits), all);
        Value isFar = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, arith::DivFOp::create(b, below, size),
                                            b.splatReal(2 * jitter));
        auto flags = VectorType::get(16, b.i32);
        Value taken = b.load(flags, b.at(scratch.taken, offset));
        Value isTaken = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, taken,
                                              arith::ConstantOp::create(b, DenseElementsAttr::get(flags, 0)));
        Value values = emitExpOfNegative(b, b.sub(logits, all));
        Value out = arith::OrIOp::create(b, isFar, isTaken);
        return SmallVector<Value>{b.add(carried[0], arith::SelectOp::create(b, out, zero, values))};
      });
  return b.add(b.real(1), vector::ReductionOp::create(b, vector::CombiningKind::ADD, sums[0]));
}

// Scores of experts whose group does not take part no longer count.
static void keepTopGroups(KernelBuilder &b, const MoeRouteSpec &spec, const Scratch &scratch) {
  int64_t size = spec.numExperts / spec.numGroups;
  Value groups = b.index(spec.numGroups), lowest = b.real(-std::numeric_limits<float>::infinity());
  b.loop(b.index(0), groups, 1, [&](Value group) {
    // The two greatest, in order.
    SmallVector<Value> top =
        b.loop(b.index(0), b.index(size), 1, {lowest, lowest}, [&](Value i, ArrayRef<Value> carried) {
          Value score = b.load(b.f32, b.at(scratch.scores, b.mul(b.add(b.mul(group, size), i), 4)));
          Value second = arith::MaxNumFOp::create(b, carried[1], arith::MinNumFOp::create(b, carried[0], score));
          return SmallVector<Value>{arith::MaxNumFOp::create(b, carried[0], score), second};
        });
    b.store(spec.hasCorrection ? b.add(top[0], top[1]) : top[0], b.at(scratch.groupScores, b.mul(group, 4)));
    b.store(b.int32(0), b.at(scratch.groupTaken, b.mul(group, 4)));
  });
  b.loop(b.index(0), b.index(spec.topGroups), 1,
         [&](Value) { takeLargest(b, spec.numGroups, scratch.groupScores, scratch.groupTaken); });
  b.loop(b.index(0), b.index(spec.numExperts), 1, [&](Value expert) {
    Value taken = b.load(b.i32, b.at(scratch.groupTaken, b.mul(b.divide(expert, size), 4)));
    Value address = b.at(scratch.scores, b.mul(expert, 4));
    Value out = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, taken, b.int32(0));
    b.store(arith::SelectOp::create(b, out, lowest, b.load(b.f32, address)), address);
  });
}

// Divides the weights of a row's experts by `divisor`, if there is one, and multiplies them by what scales them.
static void scaleWeights(KernelBuilder &b, const MoeRouteSpec &spec, Value scales, Value divisor, Value rowExperts,
                         Value rowWeights) {
  b.loop(b.index(0), b.index(spec.topK), 1, [&](Value i) {
    Value place = b.mul(i, 4), address = b.at(rowWeights, place), weight = b.load(b.f32, address);
    if (divisor)
      weight = arith::DivFOp::create(b, weight, divisor);
    if (spec.scale != 1)
      weight = b.mul(weight, b.real(spec.scale));
    if (spec.hasScales) {
      Value expert = loadIndex(b, b.at(rowExperts, place));
      weight = b.mul(weight, b.load(b.f32, b.at(scales, b.mul(expert, 4))));
    }
    b.store(weight, address);
  });
}

func::FuncOp heddle::buildMoeRoute(ModuleOp module, StringRef name, const MoeRouteSpec &spec) {
  KernelBuilder b(module, name, parameterTypes<RouteCall>(module.getContext()));
  auto call = argumentsOf<RouteCall>(b.function);
  // setup
  int64_t chunks = (spec.numExperts + 15) / 16;
  Scratch scratch{b.stack(64 * chunks),        b.stack(64 * chunks),        b.stack(64 * chunks),
                  b.stack(4 * spec.numGroups), b.stack(4 * spec.numGroups), chunks};
  b.store(b.splatReal(-std::numeric_limits<float>::infinity()), b.at(scratch.scores, 64 * (chunks - 1)));
  b.loop(call.rowBegin, call.rowEnd, 1, [&](Value row) {
    copyLogits(b, spec, b.at(call.logits, b.mul(row, 4 * spec.numExperts)), scratch);
    // What weights are divided by; none for sigmoids and sparse mixers.
    Value total = spec.sigmoid || spec.jitter ? Value() : exponentiate(b, scratch);
    if (spec.sigmoid)
      applySigmoid(b, scratch);
    if (spec.hasCorrection)
      correctScores(b, spec, call.correction, total, scratch);
    if (spec.numGroups > 1)
      keepTopGroups(b, spec, scratch);
    Value rowExperts = b.at(call.experts, b.mul(row, 4 * spec.topK)),
          rowWeights = b.at(call.weights, b.mul(row, 4 * spec.topK));
    SmallVector<Value> sum =
        b.loop(b.index(0), b.index(spec.topK), 1, b.real(0), [&](Value i, ArrayRef<Value> carried) {
          Value expert = takeLargest(b, spec.numExperts, scratch.scores, scratch.taken);
          Value place = b.mul(expert, 4);
          Value exponential =
              spec.jitter ? arith::DivFOp::create(
                                b, b.real(1),
                                sumOfNeighbours(b, *spec.jitter, b.load(b.f32, b.at(scratch.scores, place)), scratch))
                                .getResult()
                          : b.load(b.f32, b.at(scratch.exponentials, place));
          b.store(arith::TruncIOp::create(b, b.i32, expert), b.at(rowExperts, b.mul(i, 4)));
          b.store(exponential, b.at(rowWeights, b.mul(i, 4)));
          return SmallVector<Value>{b.add(carried[0], exponential)};
        });
    scaleWeights(b, spec, call.scales, spec.normalize ? sum[0] : total, rowExperts, rowWeights);
  });
  return b.finish();
}

// Adds one to a count; the count before.
static Value increment(KernelBuilder &b, Value address) {
  Value old = b.load(b.i32, address);
  b.store(b.add(old, b.int32(1)), address);
  return old;
}

// Where `capacity` tokens before it in the sequence chose an entry's expert, no expert is the entry's. `used`: (numExperts) counts.
static void dropBeyondCapacity(KernelBuilder &b, const MoeRouteSpec &spec, const GroupCall &call, Value used) {
  b.loop(b.index(0), call.numSequences, 1, [&](Value index) {
    Value sequence = b.at(call.sequences, b.mul(index, sizeof(heddle_sequence)));
    Value first = loadIndex(b, b.at(sequence, offsetof(heddle_sequence, first_row)));
    Value rows = loadIndex(b, b.at(sequence, offsetof(heddle_sequence, num_rows)));
    b.loop(b.index(0), b.index(spec.numExperts), 1, [&](Value e) { b.store(b.int32(0), b.at(used, b.mul(e, 4))); });
    b.loop(b.mul(first, spec.topK), b.mul(b.add(first, rows), spec.topK), 1, [&](Value entry) {
      Value address = b.at(call.experts, b.mul(entry, 4)), expert = b.load(b.i32, address);
      Value before = increment(b, b.at(used, b.mul(loadIndex(b, address), 4)));
      Value fits = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, before, b.int32(int32_t(spec.capacity)));
      b.store(arith::SelectOp::create(b, fits, expert, b.int32(int32_t(spec.numExperts))), address);
    });
  });
}

func::FuncOp heddle::buildMoeGroup(ModuleOp module, StringRef name, const MoeRouteSpec &spec) {
  KernelBuilder b(module, name, parameterTypes<GroupCall>(module.getContext()));
  auto call = argumentsOf<GroupCall>(b.function);
  Value entries = b.mul(call.rows, spec.topK);
  Value zero = b.index(0), numExperts = b.index(spec.numExperts);
  auto expertOf = [&](Value entry) { return loadIndex(b, b.at(call.experts, b.mul(entry, 4))); };
  // The rows of each expert, and at last those of none; then where its next row goes.
  Value next = b.stack(4 * (spec.numExperts + 1));
  // setup
  if (spec.capacity)
    dropBeyondCapacity(b, spec, call, next);
  b.loop(zero, b.index(spec.numExperts + 1), 1, [&](Value e) { b.store(b.int32(0), b.at(next, b.mul(e, 4))); });
  b.loop(zero, entries, 1, [&](Value entry) { increment(b, b.at(next, b.mul(expertOf(entry), 4))); });
  SmallVector<Value> listed = b.loop(zero, numExperts, 1, b.int32(0), [&](Value expert, ArrayRef<Value> carried) {
    Value rows = b.at(next, b.mul(expert, 4)), end = b.add(carried[0], b.load(b.i32, rows));
    b.store(carried[0], b.at(call.offsets, b.mul(expert, 4)));
    b.store(carried[0], rows);
    return SmallVector<Value>{end};
  });
  b.store(listed[0], b.at(call.offsets, 4 * spec.numExperts));
  // compute: rows ascend, so each expert's list does
  b.loop(zero, entries, 1, [&](Value entry) {
    auto list = [&] {
      Value place = loadIndex(b, b.at(next, b.mul(expertOf(entry), 4)));
      increment(b, b.at(next, b.mul(expertOf(entry), 4)));
      Value row = arith::TruncIOp::create(b, b.i32, b.divide(entry, spec.topK));
      b.store(row, b.at(call.rowIndex, b.mul(place, 4)));
      b.store(b.load(b.f32, b.at(call.weights, b.mul(entry, 4))), b.at(call.rowScale, b.mul(place, 4)));
    };
    if (spec.capacity)
      b.branch(b.lessThan(expertOf(entry), numExperts), list, [] {});
    else
      list();
  });
  return b.finish();
}

namespace {

class RouteExperts : public KernelEmitterOf<RouteExpertsOp> {
public:
protected:
  FailureOr<std::string> nameOf(RouteExpertsOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(RouteExpertsOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    MoeRouteSpec spec = specOf(op);
    std::string listName = groupName(spec);
    return Kernels{*module.once(name, [&] { return buildMoeRoute(module.code, name, spec); }),
                   *module.once(listName, [&] { return buildMoeGroup(module.code, listName, spec); })};
  }
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::routeExperts() {
  return std::make_unique<RouteExperts>();
}
