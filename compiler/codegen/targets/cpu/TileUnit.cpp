// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/TileUnit.h"

#include "compiler/codegen/kernel/RawBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace heddle;

// The operand of ldtilecfg: palette 1, then from these offsets on bytes per row (u16) and rows (u8) of each tile.
static constexpr int64_t rowBytesOffset = 16, rowsOffset = 48, numTiles = 8;

TileUnit::TileUnit(ImplicitLocOpBuilder &builder, Value shapes) : b(builder), shapes(shapes) {
  auto line = VectorType::get(shapesBytes / 4, b.getI32Type());
  storeShape(0, arith::ConstantOp::create(b, b.getZeroAttr(line)));
  storeShape(0, arith::ConstantOp::create(b, b.getI8IntegerAttr(1)));
  for (int64_t tile = 0; tile < numTiles; ++tile)
    setShape(tile, maxRows, maxRowBytes);
}

void TileUnit::storeShape(int64_t offset, Value value) {
  LLVM::StoreOp::create(b, value, addressAt(b, b.getLoc(), shapes, offset), /*alignment=*/1);
}

void TileUnit::setRows(int64_t tile, Value rows) {
  storeShape(rowsOffset + tile, rows);
}

void TileUnit::setShape(int64_t tile, int64_t rows, int64_t rowBytes) {
  setRows(tile, arith::ConstantOp::create(b, b.getI8IntegerAttr(rows)));
  storeShape(rowBytesOffset + 2 * tile, arith::ConstantOp::create(b, b.getI16IntegerAttr(rowBytes)));
}

void TileUnit::configure() {
  emit("ldtilecfg", {}, shapes);
}

void TileUnit::release() {
  emit("tilerelease", {});
}

void TileUnit::load(int64_t tile, Value address, Value stride) {
  emit("tileloadd64", tile, {address, stride});
}

void TileUnit::loadStreamed(int64_t tile, Value address, Value stride) {
  emit("tileloaddt164", tile, {address, stride});
}

void TileUnit::store(int64_t tile, Value address, Value stride) {
  emit("tilestored64", tile, {address, stride});
}

void TileUnit::clear(int64_t tile) {
  emit("tilezero", tile);
}

void TileUnit::multiplyAdd(StringRef instruction, int64_t sum, int64_t left, int64_t right) {
  emit(instruction, {sum, left, right});
}

void TileUnit::emit(StringRef name, ArrayRef<int64_t> tiles, ValueRange operands) {
  SmallVector<Value> all;
  for (int64_t index : tiles)
    all.push_back(arith::ConstantOp::create(b, b.getI8IntegerAttr(index)));
  llvm::append_range(all, operands);
  LLVM::CallIntrinsicOp::create(b, b.getStringAttr(("llvm.x86." + name).str()), all);
}
