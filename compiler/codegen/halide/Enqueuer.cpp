// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers of what a step holds: rows, packed weights, pages of the cache and where each row lies in them.

#include "compiler/codegen/halide/Enqueuer.h"

#include "compiler/codegen/halide/WeightExpressions.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

Enqueuer::Enqueuer(Location loc, ModuleOp code, StringRef name, SmallVector<Type> parameters)
    : HostKernel(loc, code, name, std::move(parameters)) {
  arguments.push_back(b.load(b.pointerType(), b.at(step, offsetof(heddle_step, device))));
}

void Enqueuer::addRows(BufferElement element, Value at, int64_t width, Value stride, Value rows) {
  add(element, at, {{b.constant(width), b.constant(1)}, {rows, stride}});
}

void Enqueuer::addVector(BufferElement element, Value at, Value count) {
  add(element, at, {{count, b.constant(1)}});
}

void Enqueuer::addHeads(Value at, int64_t headDim, int64_t heads, Value stride, Value rows) {
  add(f32Element, at, {{b.constant(headDim), b.constant(1)}, {b.constant(heads), b.constant(headDim)}, {rows, stride}});
}

void Enqueuer::addWeights(Value at, const PackedLayout &layout, int64_t n, int64_t k, bool inWords) {
  for (auto [type, elements] : packedViews(layout, k, inWords)) {
    buffer_layout::TypeCode kind = type.is_float() ? buffer_layout::Float : buffer_layout::UnsignedInteger;
    add({kind, unsigned(type.bits())}, at,
        {{b.constant(elements), b.constant(1)}, {b.constant(layout.numPanels(n)), b.constant(elements)}});
  }
}

static BufferDim pagesOf(Enqueuer &host, RawBuilder &b, int64_t elementBytes, bool isCross) {
  size_t count = isCross ? offsetof(heddle_step, num_source_pages) : offsetof(heddle_step, num_pages);
  size_t stride = isCross ? offsetof(heddle_step, source_page_stride) : offsetof(heddle_step, page_stride);
  return {host.number(count), b.divide(host.number(stride), elementBytes)};
}

SmallVector<BufferDim> Enqueuer::pageDims(int64_t columns, int64_t heads, int64_t planeBytes, int64_t elementBytes,
                                          bool isCross) {
  return {{b.constant(columns), b.constant(1)},
          {b.constant(HEDDLE_KV_PAGE_SIZE), b.constant(columns)},
          {b.constant(heads), b.constant(planeBytes / elementBytes)},
          pagesOf(*this, b, elementBytes, isCross)};
}

Value Enqueuer::pagesAt(Value planeOffset, bool isCross) {
  return b.at(pointer(isCross ? offsetof(heddle_step, source_cache) : offsetof(heddle_step, cache)), planeOffset);
}

void Enqueuer::addPages(KvType kv, int64_t headDim, int64_t heads, Value planeOffset, bool isCross) {
  int64_t planeBytes = kvPlaneBytes(kv, headDim);
  Value plane = pagesAt(planeOffset, isCross);
  add(kvElement(kv), plane, pageDims(headDim, heads, planeBytes, kvBytes(kv), isCross));
  if (kv == KvType::Q8_0)
    add({buffer_layout::UnsignedInteger, 16}, b.at(plane, HEDDLE_KV_PAGE_SIZE * headDim),
        pageDims(headDim / kvBlockColumns, heads, planeBytes, kvScaleBytes, isCross));
}

void Enqueuer::addBothPages(KvType kv, int64_t headDim, int64_t heads, Value keyOffset, Value valueOffset,
                            bool isCross) {
  SmallVector<BufferDim> dims = pageDims(headDim, heads, kvPlaneBytes(kv, headDim), kvBytes(kv), isCross);
  dims.push_back({b.constant(2), b.divide(b.sub(valueOffset, keyOffset), kvBytes(kv))});
  add(kvElement(kv), pagesAt(keyOffset, isCross), dims);
}

void Enqueuer::addBytesOfPages(int64_t headDim, int64_t heads, ArrayRef<Plane> planes, bool isCross) {
  int64_t planeBytes = kvPlaneBytes(KvType::Q8_0, headDim);
  add({buffer_layout::UnsignedInteger, 8}, pagesAt(planes.front().offset, isCross),
      {{b.constant(planeBytes), b.constant(1)},
       {b.constant(heads), b.constant(planeBytes)},
       pagesOf(*this, b, 1, isCross),
       {b.constant(planes.size()), b.sub(planes.back().offset, planes.front().offset)}});
}

void Enqueuer::addPlaces(bool isCross, Value firstRow) {
  size_t perSequence = isCross ? offsetof(heddle_step, pages_per_source) : offsetof(heddle_step, pages_per_sequence);
  size_t table = isCross ? offsetof(heddle_step, source_page_table) : offsetof(heddle_step, page_table);
  Value rows = number(offsetof(heddle_step, rows)), pages = number(perSequence);
  for (size_t offset : {offsetof(heddle_step, row_sequence), offsetof(heddle_step, cache_positions)}) {
    Value ofRows = pointer(offset);
    if (firstRow)
      addVector(i32Element, b.at(ofRows, firstRow, sizeof(int32_t)), b.sub(rows, firstRow));
    else
      addVector(i32Element, ofRows, rows);
  }
  add(i32Element, pointer(table), {{pages, b.constant(1)}, {number(offsetof(heddle_step, num_sequences)), pages}});
}

void Enqueuer::addSequenceRows() {
  add(i32Element, pointer(offsetof(heddle_step, sequence_rows)),
      {{b.constant(2), b.constant(1)}, {number(offsetof(heddle_step, num_sequences)), b.constant(2)}});
}

void Enqueuer::addStates(int64_t numbers, Value offset) {
  add(f32Element, pagesAt(offset, /*isCross=*/false),
      {{b.constant(numbers), b.constant(1)}, pagesOf(*this, b, sizeof(float), /*isCross=*/false)});
}

void Enqueuer::call(StringRef symbol) {
  SmallVector<Type> types(arguments.size(), b.pointerType());
  if (!code.lookupSymbol(symbol)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(code.getBody());
    func::FuncOp::create(b, symbol, b.getFunctionType(types, {b.getI32Type()})).setPrivate();
  }
  func::CallOp::create(b, symbol, TypeRange{b.getI32Type()}, arguments);
}

void Enqueuer::enqueue(StringRef symbol) {
  call(symbol);
  arguments.truncate(1);
}

Value Enqueuer::chosenBy(Value rows, std::optional<int64_t> fixedRows) {
  if (!fixedRows)
    return rows;
  // An encode, which has no pages of its own, takes whole sequences: each takes the kernel for most rows, beside others or alone.
  Value isFree = b.equal(number(offsetof(heddle_step, fixed_forms)), b.constant(0));
  Value isEncode = b.equal(number(offsetof(heddle_step, pages_per_sequence)), b.constant(0));
  return b.select(isEncode, b.constant(INT32_MAX), b.select(isFree, rows, b.constant(*fixedRows)));
}

void Enqueuer::enqueueByRows(Value rows, ArrayRef<RowsKernel> kernels, std::optional<int64_t> fixedRows) {
  Value number = chosenBy(rows, fixedRows);
  int64_t taken = 0;
  for (const RowsKernel &kernel : kernels) {
    Value isFor = b.lessThan(b.constant(taken), number);
    if (kernel.maxRows)
      isFor = arith::AndIOp::create(b, isFor, b.lessThan(number, b.constant(kernel.maxRows + 1)));
    b.ifThen(isFor, [&] { call(kernel.symbol); });
    taken = kernel.maxRows;
  }
  arguments.truncate(1);
}

void Enqueuer::add(BufferElement element, Value at, ArrayRef<BufferDim> dims) {
  arguments.push_back(buildBuffer(b, true, element, at, dims));
}
