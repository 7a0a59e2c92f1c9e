// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an op says for good (heads, head dims, mask, scale, types) makes a kernel, which equal ops share; what the run knows (sizes,
// strides, addresses) is written into a FlashAttentionCall before each call.

#include "compiler/codegen/GraphAttention.h"

#include "compiler/codegen/GraphEntry.h"
#include "compiler/codegen/cpu/FlashAttentionKernel.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/StringMap.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

// Multiply-adds that waking the threads pays for.
static constexpr double fewestShared = 1 << 18;

static KvType storedType(Value buffer) {
  Type element = getElementTypeOrSelf(buffer.getType());
  return element.isF32() ? KvType::F32 : element.isF16() ? KvType::F16 : KvType::BF16;
}

static AttentionSpec specOf(FlashAttentionOp op) {
  AttentionSpec spec;
  spec.numHeads = op.getQueryShape()[1];
  spec.numKvHeads = op.getKeyShape()[1];
  spec.headDim = op.getQueryShape()[3];
  spec.valueHeadDim = op.getValueShape()[3];
  spec.scale = op.getScale().convertToDouble();
  spec.softcap = op.getSoftcap().convertToDouble();
  spec.window = op.getMask().getWindow();
  spec.causal = op.getMask().getCausal();
  spec.kv = storedType(op.getKey());
  spec.rows = storedType(op.getQuery());
  spec.hasBias = bool(op.getBias());
  spec.hasSinks = bool(op.getSinks());
  return spec;
}

// Kernels are equal where their ops agree on everything that specOf reads.
static std::string specKey(FlashAttentionOp op) {
  std::string key;
  llvm::raw_string_ostream os(key);
  AttentionSpec spec = specOf(op);
  os << spec.numHeads << ' ' << spec.numKvHeads << ' ' << spec.headDim << ' ' << spec.valueHeadDim << ' '
     << op.getMaskAttr() << ' ' << op.getScaleAttr() << ' ' << op.getSoftcapAttr() << ' ' << int(spec.kv) << ' '
     << int(spec.rows) << ' ' << spec.hasBias << ' ' << spec.hasSinks;
  return key;
}

namespace {

// Writes the call of one op.
class CallBuilder {
public:
  CallBuilder(FlashAttentionOp op, Value memory) : op(op), memory(memory), b(op), loc(op.getLoc()) {}
  void run(func::FuncOp graph, func::FuncOp kernel);

private:
  using Parts = memref::ExtractStridedMetadataOp;
  Value constant(int64_t value) { return arith::ConstantIntOp::create(b, loc, b.getI64Type(), value); }
  Value toInteger(Value index) { return arith::IndexCastOp::create(b, loc, b.getI64Type(), index); }
  void store(size_t offset, Value value) {
    LLVM::StoreOp::create(b, loc, value, addressAt(b, loc, memory, int64_t(offset)));
  }
  void storePointer(size_t offset, Value buffer, Parts parts);
  Parts storeTensor(size_t pointer, size_t strides, Value buffer, ArrayRef<int64_t> axes);
  void storeBias();
  // Counts `size` into the work.
  Value counted(Value size);

  FlashAttentionOp op;
  Value memory; // of a FlashAttentionCall
  OpBuilder b;
  Location loc;
  Value work; // multiply-adds, in f64: no product of sizes wraps
};

} // namespace

void CallBuilder::storePointer(size_t offset, Value buffer, Parts parts) {
  int64_t element = getElementTypeOrSelf(buffer.getType()).getIntOrFloatBitWidth() / 8;
  Value address = toInteger(memref::ExtractAlignedPointerAsIndexOp::create(b, loc, buffer));
  Value bytes = arith::MulIOp::create(b, loc, toInteger(parts.getOffset()), constant(element));
  store(offset, arith::AddIOp::create(b, loc, address, bytes));
}

CallBuilder::Parts CallBuilder::storeTensor(size_t pointer, size_t strides, Value buffer, ArrayRef<int64_t> axes) {
  using Strides = FlashAttentionCall::Strides;
  auto parts = Parts::create(b, loc, buffer);
  storePointer(pointer, buffer, parts);
  store(strides + offsetof(Strides, batch), toInteger(parts.getStrides()[axes[0]]));
  store(strides + offsetof(Strides, head), toInteger(parts.getStrides()[axes[1]]));
  store(strides + offsetof(Strides, row), toInteger(parts.getStrides()[axes[2]]));
  return parts;
}

// A dimension of size 1 is not walked, also where only the run knows that it is 1.
void CallBuilder::storeBias() {
  auto parts = Parts::create(b, loc, op.getBias());
  storePointer(offsetof(FlashAttentionCall, bias), op.getBias(), parts);
  const size_t strides = offsetof(FlashAttentionCall, biasStrides);
  const size_t fields[] = {strides + offsetof(FlashAttentionCall::Strides, batch),
                           strides + offsetof(FlashAttentionCall::Strides, head),
                           strides + offsetof(FlashAttentionCall::Strides, row), offsetof(FlashAttentionCall, biasKey)};
  for (auto [d, field] : llvm::enumerate(fields)) {
    Value isOne = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, toInteger(parts.getSizes()[d]), constant(1));
    store(field, arith::SelectOp::create(b, loc, isOne, constant(0), toInteger(parts.getStrides()[d])));
  }
}

Value CallBuilder::counted(Value size) {
  Value wide = arith::SIToFPOp::create(b, loc, b.getF64Type(), size);
  work = work ? Value(arith::MulFOp::create(b, loc, work, wide)) : wide;
  return size;
}

void CallBuilder::run(func::FuncOp graph, func::FuncOp kernel) {
  using Call = FlashAttentionCall;
  ArrayRef<int64_t> queryAxes = op.getQueryAxes(), keyAxes = op.getKeyAxes();
  Parts query = storeTensor(offsetof(Call, query), offsetof(Call, queryStrides), op.getQuery(), queryAxes);
  Parts key = storeTensor(offsetof(Call, key), offsetof(Call, keyStrides), op.getKey(), keyAxes);
  storeTensor(offsetof(Call, value), offsetof(Call, valueStrides), op.getValue(), op.getValueAxes());
  storeTensor(offsetof(Call, out), offsetof(Call, outStrides), op.getInits()[0], op.getOutAxes());
  if (op.getBias())
    storeBias();
  if (op.getSinks())
    storePointer(offsetof(Call, sinks), op.getSinks(), Parts::create(b, loc, op.getSinks()));
  store(offsetof(Call, batch), counted(toInteger(query.getSizes()[queryAxes[0]])));
  store(offsetof(Call, queries), counted(toInteger(query.getSizes()[queryAxes[2]])));
  store(offsetof(Call, keys), counted(toInteger(key.getSizes()[keyAxes[2]])));
  SmallVector<int64_t, 4> shape = op.getQueryShape();
  Value limit = arith::ConstantOp::create(
      b, loc, b.getF64FloatAttr(fewestShared / double(shape[1] * (shape[3] + op.getValueShape()[3]))));
  Value isLarge = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE, work, limit);
  runTask(b, loc, graph, kernel, memory, isLarge);
  op.erase();
}

void heddle::lowerFlashAttention(func::FuncOp graph, const CpuTarget &target) {
  SmallVector<FlashAttentionOp> ops;
  graph.walk([&](FlashAttentionOp op) { ops.push_back(op); });
  if (ops.empty())
    return;
  auto module = graph->getParentOfType<ModuleOp>();
  // One for all, which run one after the other.
  OpBuilder b = OpBuilder::atBlockBegin(&graph.getBody().front());
  Value bytes = arith::ConstantIntOp::create(b, graph.getLoc(), b.getI64Type(), sizeof(FlashAttentionCall));
  Value memory =
      LLVM::AllocaOp::create(b, graph.getLoc(), LLVM::LLVMPointerType::get(b.getContext()), b.getI8Type(), bytes, 8);
  llvm::StringMap<func::FuncOp> kernels;
  for (FlashAttentionOp op : ops) {
    func::FuncOp &kernel = kernels[specKey(op)];
    if (!kernel) {
      std::string name = "heddle_attention_" + std::to_string(kernels.size() - 1);
      kernel = buildFlashAttention(module, name, specOf(op), target);
      kernel.setPrivate();
    }
    CallBuilder(op, memory).run(graph, kernel);
  }
}
