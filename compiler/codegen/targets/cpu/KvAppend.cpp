// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/KvAppend.h"

#include "compiler/codegen/SequenceAccess.h"
#include "runtime/model/ModelAbi.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;

// page[head][slot] = row[head] for every head, converted; rows of the page are `pageDim` wide.
static void storeHeads(RawBuilder &b, const KvAppendSpec &spec, int64_t headDim, int64_t pageDim, Value row, Value page,
                       Value slot, unsigned lanes) {
  int64_t element = kvBytes(spec.kv);
  b.loop(0, spec.numKvHeads, 1, [&](Value head) {
    Value from = b.at(row, head, headDim * sizeof(float));
    Value to = b.at(page, b.add(b.mul(head, pageTokens), slot), pageDim * element);
    for (ColumnRun run : columnRuns(headDim, lanes))
      b.storeKv(spec.kv, b.loadFloats(b.at(from, run.begin * sizeof(float)), run.lanes), b.at(to, run.begin * element));
  });
}

func::FuncOp heddle::buildKvAppend(ModuleOp module, StringRef name, const KvAppendSpec &spec, const CpuTarget &target) {
  RawBuilder b(module.getLoc(), module.getContext());
  Type pointer = b.pointerType(), size = b.getI64Type();
  func::FuncOp function =
      beginFunction(b, module, name, {pointer, pointer, size, size, pointer, pointer, pointer, size, size, size, size});
  auto argument = [&](unsigned index) -> Value { return function.getArgument(index); };
  Value key = argument(0), value = argument(1), keyStride = argument(2), valueStride = argument(3);
  Value rowSequence = argument(4), cachePositions = argument(5), sequences = argument(6);
  Value kOffset = argument(7), vOffset = argument(8), rowBegin = argument(9), rowEnd = argument(10);

  b.loop(rowBegin, rowEnd, 1, [&](Value row) {
    SequenceValues sequence = loadSequence(b, sequences, b.loadIndex(b.at(rowSequence, row, sizeof(int32_t))));
    Value position = b.loadIndex(b.at(cachePositions, row, sizeof(int32_t)));
    Value page = loadPage(b, sequence.pages, b.divide(position, pageTokens));
    Value slot = b.remainder(position, b.constant(pageTokens));
    unsigned lanes = target.vectorLanes();
    int64_t keyDim = spec.headDim, valueDim = spec.valueDim();
    int64_t latentDim = spec.isLatent ? keyDim + valueDim : 0;
    Value valuePlane = spec.isLatent ? b.at(b.at(page, kOffset), keyDim * kvBytes(spec.kv)) : b.at(page, vOffset);
    storeHeads(b, spec, keyDim, latentDim ? latentDim : keyDim, b.at(key, b.mul(row, keyStride), sizeof(float)),
               b.at(page, kOffset), slot, lanes);
    if (valueDim)
      storeHeads(b, spec, valueDim, latentDim ? latentDim : valueDim,
                 b.at(value, b.mul(row, valueStride), sizeof(float)), valuePlane, slot, lanes);
  });
  func::ReturnOp::create(b);
  return function;
}
