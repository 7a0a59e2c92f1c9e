// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/SharedTile.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;

// 16-byte groups of the 32 banks.
static constexpr int64_t bankGroups = 8;

SharedTile::SharedTile(GpuBuilder &builder, int64_t rows, int64_t columns, int64_t offset)
    : b(builder), rows(rows), chunks(llvm::PowerOf2Ceil(llvm::divideCeil(columns, chunkElements))), offset(offset) {}

Value SharedTile::offsetOf(Value row, Value chunk) {
  // Rows that fill all banks once share a swizzle.
  int64_t rowsPerSwizzle = std::max<int64_t>(1, bankGroups / chunks);
  int64_t swizzles = std::min(bankGroups, chunks);
  Value swizzle = b.bitAnd(b.divide(row, rowsPerSwizzle), b.constant(swizzles - 1));
  Value place = b.add(b.mul(row, chunks), b.bitXor(chunk, swizzle));
  return b.mul(place, chunkBytes);
}

Value SharedTile::address(Value bytes, Value stage) {
  Value total = b.add(bytes, offset);
  return b.shared(stage ? b.add(total, stage) : total);
}

Value SharedTile::laneOffset(Value lane, int64_t chunk, Order order) {
  Value low = b.bitAnd(lane, b.constant(7));
  Value third = b.bitAnd(b.divide(lane, 8), b.constant(1)), fourth = b.divide(lane, 16);
  Value row = b.add(low, b.mul(order == Order::ByRows ? third : fourth, 8));
  return offsetOf(row, b.add(order == Order::ByRows ? fourth : third, chunk));
}

Value SharedPanels::offsetOf(Value pair, Value chunk) {
  Value place = b.bitXor(chunk, b.bitAnd(pair, b.constant(2)));
  return b.add(b.mul(pair, pairBytes), b.mul(place, chunkBytes));
}

Value SharedPanels::address(Value bytes, Value stage) {
  return b.shared(b.add(b.add(bytes, offset), stage));
}

Value SharedPanels::laneOffset(Value lane, int64_t half) {
  Value row = b.divide(lane, 4), pair = b.remainder(lane, 4);
  return b.add(offsetOf(pair, b.add(b.divide(row, 4), 2 * half)), b.mul(b.remainder(row, 4), 4));
}

FragmentB SharedPanels::load(Value laneOffset, int64_t bytes, Value stage) {
  Value at = b.add(laneOffset, bytes);
  return {b.load(b.getI32Type(), address(at, stage)), b.load(b.getI32Type(), address(b.add(at, 4 * pairBytes), stage))};
}
