// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an op says for good (heads, head dims, mask, scale, types) makes a kernel, which equal ops share; what the run knows (sizes,
// strides, addresses) is written into a FlashAttentionCall before each call.

#include "compiler/codegen/host/GraphAttention.h"

#include "compiler/codegen/host/GraphTask.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/targets/cpu/FlashAttention.h"
#include "compiler/schedule/ScheduleTable.h"
#include "dialect/HeddleDialect.h"

#include "llvm/ADT/StringMap.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

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

// The address of an operand and the strides of its (batch, heads, sequence), which `axes` names.
static void storeTensor(GraphTask &call, size_t pointer, size_t strides, Value buffer, ArrayRef<int64_t> axes) {
  using Strides = FlashAttentionCall::Strides;
  call.storePointer(pointer, buffer);
  call.store(strides + offsetof(Strides, batch), call.stride(buffer, axes[0]));
  call.store(strides + offsetof(Strides, head), call.stride(buffer, axes[1]));
  call.store(strides + offsetof(Strides, row), call.stride(buffer, axes[2]));
}

// A dimension of size 1 is not walked, also where only the run knows that it is 1.
static void storeBias(GraphTask &call, Value bias) {
  const size_t strides = offsetof(FlashAttentionCall, biasStrides);
  const size_t fields[] = {strides + offsetof(FlashAttentionCall::Strides, batch),
                           strides + offsetof(FlashAttentionCall::Strides, head),
                           strides + offsetof(FlashAttentionCall::Strides, row), offsetof(FlashAttentionCall, biasKey)};
  call.storePointer(offsetof(FlashAttentionCall, bias), bias);
  for (auto [d, field] : llvm::enumerate(fields))
    call.store(field, call.broadcastStride(bias, d));
}

static void lowerOne(FlashAttentionOp op, func::FuncOp graph, Value memory, func::FuncOp kernel) {
  using Call = FlashAttentionCall;
  GraphTask call(op, graph, memory);
  ArrayRef<int64_t> queryAxes = op.getQueryAxes(), keyAxes = op.getKeyAxes();
  storeTensor(call, offsetof(Call, query), offsetof(Call, queryStrides), op.getQuery(), queryAxes);
  storeTensor(call, offsetof(Call, key), offsetof(Call, keyStrides), op.getKey(), keyAxes);
  storeTensor(call, offsetof(Call, value), offsetof(Call, valueStrides), op.getValue(), op.getValueAxes());
  storeTensor(call, offsetof(Call, out), offsetof(Call, outStrides), op.getInits()[0], op.getOutAxes());
  if (op.getBias())
    storeBias(call, op.getBias());
  if (op.getSinks())
    call.storePointer(offsetof(Call, sinks), op.getSinks());
  call.store(offsetof(Call, batch), call.counted(call.size(op.getQuery(), queryAxes[0])));
  call.store(offsetof(Call, queries), call.counted(call.size(op.getQuery(), queryAxes[2])));
  call.store(offsetof(Call, keys), call.counted(call.size(op.getKey(), keyAxes[2])));
  SmallVector<int64_t, 4> shape = op.getQueryShape();
  call.run(kernel, double(shape[1] * (shape[3] + op.getValueShape()[3])));
}

void heddle::lowerFlashAttention(func::FuncOp graph, const CpuTarget &target) {
  SmallVector<FlashAttentionOp> ops;
  graph.walk([&](FlashAttentionOp op) { ops.push_back(op); });
  if (ops.empty())
    return;
  auto module = graph->getParentOfType<ModuleOp>();
  Value memory = taskMemory(graph, sizeof(FlashAttentionCall));
  llvm::StringMap<func::FuncOp> kernels;
  for (FlashAttentionOp op : ops) {
    func::FuncOp &kernel = kernels[specKey(op)];
    if (!kernel) {
      std::string name = "heddle_attention_" + std::to_string(kernels.size() - 1);
      AttentionSpec spec = specOf(op);
      applySchedule(spec, scheduleFor(op, targetAttr(graph.getContext(), target)));
      kernel = buildFlashAttention(module, name, spec, target);
      kernel.setPrivate();
    }
    lowerOne(op, graph, memory, kernel);
  }
}
