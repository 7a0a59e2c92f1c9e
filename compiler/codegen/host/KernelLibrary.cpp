// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One kernel for all ops of a signature, and the table of what was launched.

#include "compiler/codegen/host/KernelLibrary.h"

#include "compiler/schedule/ScheduleTable.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace heddle;

ScheduleAttr KernelLibrary::scheduleOf(Operation *op) const {
  auto schedule = op->getAttrOfType<ScheduleAttr>(scheduleAttrName);
  return schedule ? schedule : scheduleFor(op, described);
}

FailureOr<ArrayRef<func::FuncOp>> KernelLibrary::kernels(Operation *op) {
  FailureOr<std::string> signature = target->signature(op);
  if (failed(signature))
    return failure();
  ScheduleAttr schedule = scheduleOf(op);
  // Ops that differ in their schedule alone have kernels of other names.
  std::string name = *signature;
  for (unsigned count = 1; scheduled.contains(name) && scheduled[name].first != schedule; ++count)
    name = *signature + "_schedule" + std::to_string(count);
  auto &[ofKernels, known] = scheduled[name];
  if (known.empty()) {
    FailureOr<Kernels> emitted = target->emit(op, schedule, name, module);
    if (failed(emitted))
      return failure();
    ofKernels = schedule;
    known = std::move(*emitted);
  }
  return ArrayRef<func::FuncOp>(known);
}

// Of a token's keys and values in one layer.
static int64_t cachedBytes(KvCacheType cache) {
  return cache.getLayerBytes() / HEDDLE_KV_PAGE_SIZE;
}

// Reads rows and writes what the cache holds of them.
static void recordAppend(KvAppendOp op, KernelRecord &record) {
  record.bytesPerRow = cachedBytes(op.getCache().getType());
  for (Value rows : {op.getKey(), op.getValue()})
    if (auto type = rows ? dyn_cast<MemRefType>(rows.getType()) : MemRefType())
      record.bytesPerRow += type.getDimSize(1) * type.getElementTypeBitWidth() / 8;
}

// What attention costs by the keys that a run decides.
static void recordKeys(Operation *op, KernelRecord &record) {
  auto ofCache = [&](KvCacheType cache, MaskAttr mask) {
    record.bytesPerKey = cachedBytes(cache);
    record.window = mask.getWindow();
    record.chunk = mask.getChunk();
    record.readsSources = cache.getCross();
  };
  if (auto attention = dyn_cast<OnlineAttentionOp>(op)) {
    record.flopsPerPair = 4 * int64_t(attention.getNumHeads()) * attention.getCache().getType().getHeadDim();
    ofCache(attention.getCache().getType(), attention.getMask());
  } else if (auto ragged = dyn_cast<RaggedAttentionOp>(op)) {
    int64_t headDims = ragged.getHeadDim() + ragged.getValueDim();
    if (ragged.getOfGlobals()) // which a run names
      return;
    record.window = ragged.getMask().getAhead() ? ragged.getMask().getWindow() : 0;
    record.flopsPerPair = 2 * int64_t(ragged.getNumHeads()) * headDims;
    record.bytesPerKey = int64_t(sizeof(float)) * int64_t(ragged.getNumKvHeads()) * headDims;
  } else if (auto latent = dyn_cast<OnlineLatentAttentionOp>(op)) {
    LatentDims dims = latent.getDims();
    record.flopsPerPair = 2 * dims.numHeads * (2 * dims.rank + dims.rope);
    ofCache(latent.getCache().getType(), latent.getMask());
  }
}

// Whether attention multiplies pairs of bf16, which no op says.
static bool multipliesPairs(ScheduleAttr schedule) {
  return schedule && llvm::any_of(schedule.getTiles(), [](TileAttr tile) {
           return tile.getRole() == TileRole::Registers && tile.getK() == 2;
         });
}

unsigned KernelLibrary::record(func::FuncOp kernel, Operation *op, unsigned times) {
  auto entry = recorded.try_emplace(kernel.getSymNameAttr()).first;
  unsigned index = numBefore + unsigned(entry - recorded.begin());
  KernelRecord &record = entry->second;
  record.name = kernel.getSymName().str();
  record.emitter = module.isHalide(record.name) ? "halide" : "mlir";
  record.calls += times;
  auto cost = dyn_cast<KernelOpInterface>(op);
  if (auto attention = dyn_cast<OnlineAttentionOp>(op))
    record.schedule = attention.storesScores() ? "scores stored" : "block_kv=" + std::to_string(attention.getBlockKv());
  record.kind = cost ? cost.getKernelKind().str() : isa<KvAppendOp>(op) ? "cache" : "matmul";
  if (auto append = dyn_cast<KvAppendOp>(op))
    recordAppend(append, record);
  if (!cost)
    return index;
  record.flopsPerRow = cost.getFlopsPerRow();
  record.fixedBytes = cost.getFixedBytes();
  record.bytesPerRow = cost.getBytesPerRow();
  record.arithmetic = multipliesPairs(scheduleOf(op)) ? "bf16" : cost.getArithmetic().str();
  recordKeys(op, record);
  return index;
}

std::optional<LaunchChoice> heddle::choiceOf(Operation *op) {
  auto branch = dyn_cast<scf::IfOp>(op->getParentOp());
  auto preference = branch ? branch.getCondition().getDefiningOp<PreferSplitsOp>() : PreferSplitsOp();
  if (!preference)
    return std::nullopt;
  return LaunchChoice{preference, op->getParentRegion() == &branch.getThenRegion()};
}

unsigned KernelLibrary::recordInStep(func::FuncOp kernel, Operation *op, unsigned times) {
  std::optional<LaunchChoice> choice = choiceOf(op);
  unsigned index = record(kernel, op, choice && choice->splits ? 0 : times);
  launched.push_back({index, op});
  return index;
}
