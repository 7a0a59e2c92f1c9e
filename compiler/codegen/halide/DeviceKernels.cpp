// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/halide/DeviceKernels.h"

#include "compiler/codegen/host/HostKernel.h"
#include "compiler/codegen/targets/cuda/OnlineAttention.h"
#include "compiler/codegen/halide/BufferBuilder.h"
#include "compiler/codegen/halide/PackedWeights.h"
#include "dialect/HeddleDialect.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

static constexpr BufferElement f32 = {buffer_layout::Float, 32}, i32 = {buffer_layout::SignedInteger, 32};
static constexpr BufferElement bf16 = {buffer_layout::UnsignedInteger, 16}; // as Halide reads it

// What of an attention has no kernel; null if all has.
static const char *missingOf(AttentionOp op) {
  if (!op.getMask().getCausal())
    return "without a causal mask";
  if (op.getBias())
    return "with a bias";
  if (op.getSinks())
    return "with sinks";
  auto headDim = [](Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(3); };
  return headDim(op.getKey()) != headDim(op.getValue()) ? "with values of another head_dim than keys" : nullptr;
}

std::string heddle::missingDeviceKernel(ModuleOp module) {
  std::string missing;
  module.walk([&](Operation *op) {
    const char *what = isa<MoeOp, LatentAttentionOp>(op) ? "" : nullptr;
    if (auto attention = dyn_cast<AttentionOp>(op))
      what = missingOf(attention);
    if (!what)
      return WalkResult::advance();
    missing = ("'" + op->getName().getStringRef() + "'" + (*what ? " " : "") + what).str();
    return WalkResult::interrupt();
  });
  return missing;
}

namespace {

// Calls Halide's kernels: their buffers, then the call.
class Enqueuer : public HostKernel {
public:
  Enqueuer(Location loc, ModuleOp code, StringRef name, StringRef parameters)
      : HostKernel(loc, code, name, parameters) {
    arguments.push_back(b.load(b.pointerType(), b.at(step, offsetof(heddle_step, device))));
  }

  Value constant(int64_t value) { return b.constant(value); }

  // (width, rows), rows `stride` elements apart.
  void addRows(BufferElement element, Value at, int64_t width, Value stride, Value rows) {
    add(element, at, {{b.constant(width), b.constant(1)}, {rows, stride}});
  }
  void addVector(BufferElement element, Value at, Value count) { add(element, at, {{count, b.constant(1)}}); }
  // (head_dim, heads, rows)
  void addHeads(Value at, int64_t headDim, int64_t heads, Value stride, Value rows) {
    add(f32, at, {{b.constant(headDim), b.constant(1)}, {b.constant(heads), b.constant(headDim)}, {rows, stride}});
  }
  void addWeights(Value at, const PackedLayout &layout, int64_t n, int64_t k) {
    for (auto [type, elements] : packedViews(layout, k)) {
      buffer_layout::TypeCode kind = type.is_float() ? buffer_layout::Float : buffer_layout::UnsignedInteger;
      add({kind, unsigned(type.bits())}, at,
          {{b.constant(elements), b.constant(1)}, {b.constant(layout.numPanels(n)), b.constant(elements)}});
    }
  }
  // One plane of the cache's pages: (head_dim, 64, heads, pages).
  void addPages(KvType kv, int64_t headDim, int64_t heads, Value planeOffset) {
    constexpr int64_t tokens = HEDDLE_KV_PAGE_SIZE;
    BufferElement element = kv == KvType::F32 ? f32 : BufferElement{buffer_layout::UnsignedInteger, 16};
    add(element, b.at(pointer(offsetof(heddle_step, cache)), planeOffset),
        {{b.constant(headDim), b.constant(1)},
         {b.constant(tokens), b.constant(headDim)},
         {b.constant(heads), b.constant(headDim * tokens)},
         {number(offsetof(heddle_step, num_pages)),
          b.divide(number(offsetof(heddle_step, page_stride)), kvBytes(kv))}});
  }
  // row_sequence, cache_positions, page_table
  void addPlaces() {
    Value rows = number(offsetof(heddle_step, rows)), pages = number(offsetof(heddle_step, pages_per_sequence));
    addVector(i32, pointer(offsetof(heddle_step, row_sequence)), rows);
    addVector(i32, pointer(offsetof(heddle_step, cache_positions)), rows);
    add(i32, pointer(offsetof(heddle_step, page_table)),
        {{pages, b.constant(1)}, {number(offsetof(heddle_step, num_sequences)), pages}});
  }

  // Calls the kernel with the buffers added so far, which are then forgotten.
  void call(StringRef symbol) {
    SmallVector<Type> types(arguments.size(), b.pointerType());
    if (!code.lookupSymbol(symbol)) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(code.getBody());
      func::FuncOp::create(b, symbol, b.getFunctionType(types, {b.getI32Type()})).setPrivate();
    }
    func::CallOp::create(b, symbol, TypeRange{b.getI32Type()}, arguments);
    arguments.truncate(1);
  }

private:
  void add(BufferElement element, Value at, ArrayRef<BufferDim> dims) {
    arguments.push_back(buildBuffer(b, true, element, at, dims));
  }

  SmallVector<Value> arguments; // the device, then buffers
};

} // namespace

FailureOr<func::FuncOp> DeviceKernels::refuse(Operation *op, const Twine &what) {
  return op->emitError("target ") << target.name << " has no kernel for " << what;
}

LogicalResult DeviceKernels::add(StringRef name, FailureOr<std::string> object) {
  if (failed(object))
    return failure();
  objects.push_back(std::move(*object));
  halideKernels.insert(name);
  return success();
}

FailureOr<func::FuncOp> DeviceKernels::matmul(Operation *op, StringRef name, const MatmulSpec &spec) {
  if (spec.activation == MatmulActivation::Q8)
    return refuse(op, "8-bit activations");
  if (spec.rows != MatmulRows::Dense || spec.epilogue != MatmulEpilogue::None)
    return refuse(op, "products of experts");
  bool isBf16 = spec.activation == MatmulActivation::Bf16;
  // cp.async takes rows that begin at 16 bytes.
  if (gpu && isBf16 && spec.layout.numbers == PackedNumbers::BF16 && spec.k % 8 == 0) {
    GpuMatmulSpec product{spec.n, spec.k, spec.hasBias, spec.accumulate, spec.epilogue};
    if (std::string reason; failed(verifyGpuMatmul(product, reason)))
      return op->emitError(reason);
    return gpu->matmul(op->getLoc(), name, product);
  }
  std::string symbol = (name + "_device").str();
  if (failed(add(name, emitDeviceMatmul(op->getLoc(), target, symbol, spec))))
    return failure();
  // act, scales, sums, weights, bias, out, rows, actStride, outStride, panelBegin, panelEnd
  Enqueuer e(op->getLoc(), code, name, "ppppppnnnnn");
  Value out = e.argument(5), rows = e.argument(6), outStride = e.argument(8);
  e.addRows(isBf16 ? bf16 : f32, e.argument(0), spec.k, e.argument(7), rows);
  e.addWeights(e.argument(3), spec.layout, spec.n, spec.k);
  if (spec.hasBias)
    e.addVector(f32, e.argument(4), e.constant(spec.n));
  if (spec.accumulate)
    e.addRows(f32, out, spec.n, outStride, rows);
  e.addRows(f32, out, spec.n, outStride, rows);
  e.call(symbol);
  return e.finish();
}

FailureOr<func::FuncOp> DeviceKernels::embedding(Operation *op, StringRef name, const EmbeddingSpec &spec, int64_t n) {
  std::string symbol = (name + "_device").str();
  if (failed(add(name, emitDeviceEmbedding(op->getLoc(), target, symbol, spec, n))))
    return failure();
  // ids, weights, out, rowBegin, rowEnd, outStride
  Enqueuer e(op->getLoc(), code, name, "pppnnn");
  Value rows = e.argument(4);
  e.addVector(i32, e.argument(0), rows);
  e.addWeights(e.argument(1), spec.layout, n, spec.k);
  e.addRows(f32, e.argument(2), spec.k, e.argument(5), rows);
  e.call(symbol);
  return e.finish();
}

FailureOr<func::FuncOp> DeviceKernels::kvAppend(Operation *op, StringRef name, const KvAppendSpec &spec) {
  if (spec.valueDim() != spec.headDim)
    return refuse(op, "values of another head_dim than keys");
  std::string symbol = (name + "_device").str();
  if (failed(add(name, emitDeviceKvAppend(op->getLoc(), target, symbol, spec))))
    return failure();
  // key, value, keyStride, valueStride, rowSequence, cachePositions, sequences, kOffset, vOffset, rowBegin, rowEnd
  Enqueuer e(op->getLoc(), code, name, "ppnnpppnnnn");
  for (unsigned plane : {0, 1}) {
    e.addHeads(e.argument(plane), spec.headDim, spec.numKvHeads, e.argument(2 + plane), e.argument(10));
    e.addPlaces();
    e.addPages(spec.kv, spec.headDim, spec.numKvHeads, e.argument(7 + plane));
    e.call(symbol);
  }
  return e.finish();
}

FailureOr<func::FuncOp> DeviceKernels::attention(Operation *op, StringRef name, const AttentionSpec &spec) {
  if (!spec.causal)
    return refuse(op, "attention that is not causal");
  if (spec.hasSinks || spec.hasAlibiSlopes)
    return refuse(op, "attention with sinks or ALiBi");
  if (spec.valueDim() != spec.headDim)
    return refuse(op, "values of another head_dim than keys");
  if (std::string reason; gpu && succeeded(verifyGpuAttention(spec, reason)))
    return gpu->attention(op->getLoc(), name, spec);
  std::string symbol = (name + "_device").str();
  if (failed(add(name, emitDeviceAttention(op->getLoc(), target, symbol, spec))))
    return failure();
  // q, out, sequences, numSequences, kOffset, vOffset, qStride, outStride, sinks, thread, numThreads
  Enqueuer e(op->getLoc(), code, name, "pppnnnnnptt");
  Value rows = e.number(offsetof(heddle_step, rows));
  e.addHeads(e.argument(0), spec.headDim, spec.numHeads, e.argument(6), rows);
  e.addPages(spec.kv, spec.headDim, spec.numKvHeads, e.argument(4));
  e.addPages(spec.kv, spec.headDim, spec.numKvHeads, e.argument(5));
  e.addPlaces();
  e.addHeads(e.argument(1), spec.headDim, spec.numHeads, e.argument(7), rows);
  e.call(symbol);
  return e.finish();
}
