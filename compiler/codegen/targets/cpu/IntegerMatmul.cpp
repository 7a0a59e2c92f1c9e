// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of bytes whose sums stay 32-bit integers.
//
// With a' = act - 128 where bytes of `act` are unsigned, else act, and z' the zero of `act` likewise, and u and z_u what a panel stores of a number of W
// and of its zero point:
//   sum (act - zero) (u - z_u) = sum a' u - z_u sum a' - z' sum (u - z_u)
// so that signed bytes multiply unsigned ones, as instructions do. Rows are copied as a' with their sums, the last sum stands in front of the panel.
//
// On AMX 16 rows are a tile as they are copied, and 64 columns of K of a panel one as they lie: 2 x 2 tiles of sums, which pass through the stack. Sums are
// exact, so that rows that fill no tile run on vectors.

#include "compiler/codegen/targets/cpu/IntegerMatmul.h"

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/DotProduct.h"
#include "compiler/codegen/targets/cpu/MatmulTiles.h"
#include "compiler/codegen/targets/cpu/TileUnit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <algorithm>
#include <optional>

using namespace mlir;
using namespace heddle;

static constexpr int64_t lanes = PackedLayout::panelRows, lineBytes = 4 * lanes;
// Of rows that are copied at once: they stay in the second cache while all panels go by.
static constexpr int64_t copiedBytes = 256 << 10;

namespace {

class IntegerMatmulBuilder {
public:
  IntegerMatmulBuilder(ModuleOp module, StringRef name, const IntegerMatmulSpec &spec, ScheduleAttr schedule,
                       const CpuTarget &target)
      : b(module, name, parameterTypes<IntegerMatmulCall>(module.getContext())), spec(spec),
        call(argumentsOf<IntegerMatmulCall>(b.function)), tile(tilesOf(schedule).q8),
        dot(b, target, spec.layout.maxCode),
        usesTiles(target.hasAvx512() && target.has("amx-tile") && target.has("amx-int8") && spec.k % lineBytes == 0) {}
  func::FuncOp emit();

private:
  using Values = SmallVector<Value>;

  int64_t quads() const { return llvm::divideCeil(spec.k, 4); }
  // Of a copied row: a line more than it needs, since rows that lie powers of two apart meet in few sets of a cache.
  int64_t rowBytes() const { return llvm::alignTo(spec.k, lineBytes) + lineBytes; }
  Value copiedZero();
  void copyRow(Value row, Value to, Value sumTo);
  void emitPanels(Value panel, int64_t panels, Value begin, Value end);
  void emitTile(Value panel, int64_t panels, Value begin, Value row, int64_t height);
  void emitUnitTile(Value panel, int64_t panels, Value begin, Value row, int64_t rowTiles);
  // Of a panel: what is subtracted from each row's sums of products, and, for each of the row's own sum, zero points of what is multiplied.
  std::pair<Value, Value> termsOf(Value panelAddress);
  Value panelAddress(Value panel) { return b.at(call.weights, b.mul(panel, spec.layout.panelBytes(spec.k))); }
  void storeLanes(Value sum, Value row, Value panel, Value mask);
  Value maskOf(Value panel);

  KernelBuilder b;
  const IntegerMatmulSpec &spec;
  IntegerMatmulCall call;
  MatmulTile tile;
  DotProduct dot;
  bool usesTiles;
  std::optional<TileUnit> unit;
  Value unitSums;     // (2, 2, 16 rows, 16)
  Value zero;         // z' in every lane
  Value copies, sums; // (rows, rowBytes), and i32 (rows), of the rows that are copied at once
};

} // namespace

func::FuncOp IntegerMatmulBuilder::emit() {
  // setup
  constexpr int64_t unitRows = TileUnit::maxRows;
  int64_t tallest = !usesTiles                                 ? tile.heights.front()
                    : copiedBytes / rowBytes() >= unitRows * 2 ? unitRows * 2
                                                               : unitRows;
  int64_t rowsAtOnce = std::clamp<int64_t>(copiedBytes / rowBytes() / tallest * tallest, tallest, 1024);
  copies = b.stack(rowsAtOnce * rowBytes());
  sums = b.stack(rowsAtOnce * 4);
  zero = b.splat(copiedZero());
  Value fillsTile = b.lessThan(b.index(TileUnit::maxRows - 1), call.rows);
  if (usesTiles) {
    unitSums = b.stack(4 * TileUnit::maxRows * lineBytes);
    unit.emplace(b, b.stack(TileUnit::shapesBytes));
    b.branch(fillsTile, [&] { unit->configure(); }, [] {});
  }
  // compute
  b.loop(b.index(0), call.rows, rowsAtOnce, [&](Value begin) {
    Value end = b.minimum(call.rows, b.add(begin, rowsAtOnce));
    b.loop(begin, end, 1, [&](Value row) {
      Value place = b.sub(row, begin);
      copyRow(row, b.at(copies, b.mul(place, rowBytes())), b.at(sums, b.mul(place, 4)));
    });
    Value whole = b.wholeSteps(call.panelBegin, call.panelEnd, tile.panels);
    b.loop(call.panelBegin, whole, tile.panels, [&](Value panel) { emitPanels(panel, tile.panels, begin, end); });
    b.loop(whole, call.panelEnd, 1, [&](Value panel) { emitPanels(panel, 1, begin, end); });
  });
  // finish
  if (usesTiles)
    b.branch(fillsTile, [&] { unit->release(); }, [] {});
  return b.finish();
}

// z' as i32.
Value IntegerMatmulBuilder::copiedZero() {
  if (!spec.hasZero)
    return b.int32(spec.isUnsigned ? -128 : 0);
  Value byte = b.load(b.i8, call.zero);
  if (!spec.isUnsigned)
    return arith::ExtSIOp::create(b, b.i32, byte);
  return b.sub(arith::ExtUIOp::create(b, b.i32, byte), b.int32(128));
}

// Row `row` of `act` as a', zeros behind it up to a multiple of four, and its sum.
void IntegerMatmulBuilder::copyRow(Value row, Value to, Value sumTo) {
  Value from = b.at(call.act, b.mul(row, call.actStride)), whole = b.index(spec.k / lineBytes * lineBytes);
  Values lineSums = b.loop(b.index(0), whole, lineBytes, {b.splatInt(0)}, [&](Value at, ArrayRef<Value> carried) {
    Value line = b.load(b.v16i32, b.at(from, at), 1);
    if (spec.isUnsigned)
      line = arith::XOrIOp::create(b, line, b.splatInt(0x80808080));
    b.store(line, b.at(to, at));
    return Values{dot.emit(carried[0], b.splatInt(0x01010101), line)};
  });
  Value sum = vector::ReductionOp::create(b, vector::CombiningKind::ADD, lineSums[0]);
  sum = b.loop(whole, b.index(spec.k), 1, {sum}, [&](Value at, ArrayRef<Value> carried) {
    Value byte = b.load(b.i8, b.at(from, at));
    if (spec.isUnsigned)
      byte = arith::XOrIOp::create(b, byte, arith::ConstantOp::create(b, b.getI8IntegerAttr(-128)));
    b.store(byte, b.at(to, at));
    return Values{b.add(carried[0], arith::ExtSIOp::create(b, b.i32, byte))};
  })[0];
  b.loop(b.index(spec.k), b.index(4 * quads()), 1,
         [&](Value at) { b.store(arith::ConstantOp::create(b, b.getI8IntegerAttr(0)), b.at(to, at)); });
  b.store(sum, sumTo);
}

void IntegerMatmulBuilder::emitPanels(Value panel, int64_t panels, Value begin, Value end) {
  Value row = begin;
  for (int64_t rowTiles = usesTiles ? 2 : 0; rowTiles > 0; --rowTiles) {
    Value to = b.wholeSteps(row, end, rowTiles * TileUnit::maxRows);
    b.loop(row, to, rowTiles * TileUnit::maxRows, [&](Value at) { emitUnitTile(panel, panels, begin, at, rowTiles); });
    row = to;
  }
  for (int64_t height : tile.heights) {
    Value to = b.wholeSteps(row, end, height);
    b.loop(row, to, height, [&](Value at) { emitTile(panel, panels, begin, at, height); });
    row = to;
  }
}

// Lanes of `panel` that are columns of `out`; null where all are.
Value IntegerMatmulBuilder::maskOf(Value panel) {
  return spec.n % lanes ? b.lanesBelow(b.index(spec.n), b.mul(panel, lanes)) : Value();
}

std::pair<Value, Value> IntegerMatmulBuilder::termsOf(Value panelAddress) {
  Value zeroPoints = b.load(b.v16i32, b.at(panelAddress, PackedLayout::panelZeroOffset()));
  return {b.mul(b.load(b.v16i32, panelAddress), zero), zeroPoints};
}

void IntegerMatmulBuilder::storeLanes(Value sum, Value row, Value panel, Value mask) {
  Value to = b.at(call.out, b.mul(b.add(b.mul(row, call.outStride), b.mul(panel, lanes)), 4));
  mask ? b.storeMasked(sum, to, mask) : b.store(sum, to, 4);
}

void IntegerMatmulBuilder::emitTile(Value panel, int64_t panels, Value begin, Value row, int64_t height) {
  // setup: sums (height, panels), from what does not depend on the products
  Value place = b.sub(row, begin), rows = b.at(copies, b.mul(place, rowBytes()));
  Value rowSums = b.at(sums, b.mul(place, 4));
  Values codes, total(height * panels);
  for (int64_t p = 0; p < panels; ++p) {
    Value address = panelAddress(b.add(panel, p));
    auto [ofPanel, zeroPoints] = termsOf(address);
    // What is multiplied are numbers less the bias of the product.
    zeroPoints = b.sub(zeroPoints, b.splatInt(dot.codeBias()));
    for (int64_t r = 0; r < height; ++r) {
      Value rowSum = b.splat(b.load(b.i32, b.at(rowSums, 4 * r)));
      total[r * panels + p] = b.sub(b.sub(b.splatInt(0), ofPanel), b.mul(zeroPoints, rowSum));
    }
    codes.push_back(b.at(address, spec.layout.panelHeaderBytes()));
  }
  // compute
  total = b.loop(b.index(0), b.index(quads()), 1, total, [&](Value quad, ArrayRef<Value> carried) {
    Values next(carried), lines;
    for (Value address : codes)
      lines.push_back(dot.prepareCodes(b.load(b.v16i32, b.at(address, b.mul(quad, lineBytes)))));
    Value column = b.at(rows, b.mul(quad, 4));
    for (int64_t r = 0; r < height; ++r) {
      Value bytes = b.splat(b.load(b.i32, b.at(column, r * rowBytes())));
      for (int64_t p = 0; p < panels; ++p)
        next[r * panels + p] = dot.emit(next[r * panels + p], lines[p], bytes);
    }
    return next;
  });
  // store
  for (int64_t p = 0; p < panels; ++p) {
    Value ofPanel = b.add(panel, p), mask = maskOf(ofPanel);
    for (int64_t r = 0; r < height; ++r)
      storeLanes(total[r * panels + p], b.add(row, r), ofPanel, mask);
  }
}

// The same of `rowTiles` tiles of rows from `row` on, of two panels at most.
void IntegerMatmulBuilder::emitUnitTile(Value panel, int64_t panels, Value begin, Value row, int64_t rowTiles) {
  // setup
  constexpr int64_t tileRows = TileUnit::maxRows, tileBytes = tileRows * lineBytes;
  Value place = b.sub(row, begin), rows = b.at(copies, b.mul(place, rowBytes()));
  Value rowStride = b.index(rowBytes()), lineStride = b.index(lineBytes);
  Values addresses;
  for (int64_t p = 0; p < panels; ++p)
    addresses.push_back(panelAddress(b.add(panel, p)));
  auto forTiles = [&](function_ref<void(int64_t r, int64_t p)> body) {
    for (int64_t r = 0; r < rowTiles; ++r)
      for (int64_t p = 0; p < panels; ++p)
        body(r, p);
  };
  // compute
  forTiles([&](int64_t r, int64_t p) { unit->clear(TileUnit::sumTile(r, p)); });
  b.loop(b.index(0), b.index(spec.k), lineBytes, [&](Value column) {
    for (int64_t r = 0; r < rowTiles; ++r)
      unit->load(TileUnit::leftTile(r), b.at(b.at(rows, column), r * tileRows * rowBytes()), rowStride);
    for (int64_t p = 0; p < panels; ++p)
      unit->load(TileUnit::rightTile(p), b.at(b.at(addresses[p], b.mul(column, lanes)), spec.layout.panelHeaderBytes()),
                 lineStride);
    forTiles([&](int64_t r, int64_t p) {
      unit->multiplyAdd("tdpbsud", TileUnit::sumTile(r, p), TileUnit::leftTile(r), TileUnit::rightTile(p));
    });
  });
  // store
  forTiles([&](int64_t r, int64_t p) {
    unit->store(TileUnit::sumTile(r, p), b.at(unitSums, (2 * r + p) * tileBytes), lineStride);
  });
  forTiles([&](int64_t r, int64_t p) {
    Value ofPanel = b.add(panel, p), mask = maskOf(ofPanel), from = b.at(unitSums, (2 * r + p) * tileBytes);
    Value rowSums = b.at(sums, b.mul(b.add(place, r * tileRows), 4));
    auto [subtracted, zeroPoints] = termsOf(addresses[p]);
    b.loop(b.index(0), b.index(tileRows), 1, [&, subtracted = subtracted, zeroPoints = zeroPoints](Value i) {
      Value products = b.load(b.v16i32, b.at(from, b.mul(i, lineBytes)));
      Value ofRow = b.mul(zeroPoints, b.splat(b.load(b.i32, b.at(rowSums, b.mul(i, 4)))));
      storeLanes(b.sub(b.sub(products, subtracted), ofRow), b.add(b.add(row, r * tileRows), i), ofPanel, mask);
    });
  });
}

func::FuncOp heddle::buildIntegerMatmul(ModuleOp module, StringRef name, const IntegerMatmulSpec &spec,
                                        ScheduleAttr schedule, const CpuTarget &target) {
  return IntegerMatmulBuilder(module, name, spec, schedule, target).emit();
}

namespace {

class IntegerMatmul : public KernelEmitterOf<IntegerMatmulOp> {
public:
  explicit IntegerMatmul(const CpuTarget &target) : target(target) {}

protected:
  FailureOr<std::string> nameOf(IntegerMatmulOp op) const override { return signatureOf(op); }
  FailureOr<Kernels> build(IntegerMatmulOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    FailureOr<IntegerMatmulSpec> spec = specOf(op);
    if (failed(spec))
      return failure();
    return oneKernel(module.once(name, [&] { return buildIntegerMatmul(module.code, name, *spec, schedule, target); }));
  }

private:
  const CpuTarget &target;
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::integerMatmul(const CpuTarget &target) {
  return std::make_unique<IntegerMatmul>(target);
}
