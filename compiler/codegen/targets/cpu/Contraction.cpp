// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/Contraction.h"

#include "compiler/codegen/kernel/ContractionLoops.h"
#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/KernelBuilder.h"
#include "compiler/codegen/targets/cpu/MatmulTiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t lanes = 16; // columns of c in a panel
static constexpr int64_t panelBytes = 4 * lanes;

namespace {

class ContractionBuilder {
public:
  ContractionBuilder(ModuleOp module, StringRef name, ScheduleAttr schedule)
      : b(module, name, parameterTypes<ContractionCall>(module.getContext())),
        call(argumentsOf<ContractionCall>(b.function)), tile(tilesOf(schedule).floatMany),
        rowBlock(schedule.getRowBlock()), depthBlock(schedule.getKBlock()) {}
  func::FuncOp emit();

private:
  using Values = SmallVector<Value>;

  // Of outer loop `loop`: its size, and how far a, b and c move with its step.
  enum OuterField : int64_t { Size, MoveA, MoveB, MoveC, numOuterFields };
  Value outerField(Value loop, OuterField field) {
    return b.load(b.i64, b.at(b.at(call.outer, b.mul(loop, numOuterFields * 8)), field * 8), 8);
  }
  Value quotient(Value x, Value y) { return arith::DivUIOp::create(b, x, y); }
  Value remainder(Value x, Value y) { return arith::RemUIOp::create(b, x, y); }
  Value blocks(Value size, int64_t block) { return b.divide(b.add(size, block - 1), block); }
  Value floatAt(Value base, Value element) { return b.at(base, b.mul(element, 4)); }
  Value isEqual(Value x, int64_t y) { return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, b.index(y)); }

  void emitItem(Value item);
  void moveToOuter(Value outer);
  void emitPanels(Value panel, int64_t panels, Value rowBegin, Value rowEnd);
  void packRows(Value panel, int64_t panels, Value depth, Value depthEnd);
  void packColumns(Value panel, int64_t panels, Value depth, Value depthEnd);
  void emitTile(Value row, int64_t height, Value panel, int64_t panels, Value depth, Value depthEnd, Value source,
                Value sourceStride);
  Value maskOf(Value panel);

  KernelBuilder b;
  ContractionCall call;
  MatmulTile tile;
  int64_t rowBlock, depthBlock;                      // rows that share a packed block of b, and rows of b in it
  Value matrixA, matrixB, matrixC;                   // of the item
  Value m, n, k, aRow, aColumn, bRow, bColumn, cRow; // of the call
  Value numPanels, numChunks, numRowBlocks, scratch; // scratch (depthBlock, panels, 16)
};

} // namespace

func::FuncOp ContractionBuilder::emit() {
  // setup
  m = call.m, n = call.n, k = call.k, cRow = call.cRow;
  aRow = call.aRow, aColumn = call.aColumn, bRow = call.bRow, bColumn = call.bColumn;
  scratch = b.stack(depthBlock * tile.panels * panelBytes);
  numPanels = blocks(n, lanes), numChunks = blocks(numPanels, tile.panels), numRowBlocks = blocks(m, rowBlock);
  // compute: an item is a block of rows and a chunk of panels of one outer index; threads take items that follow each other
  Values items =
      b.loop(b.index(0), call.numOuter, 1, {b.mul(numChunks, numRowBlocks)},
             [&](Value outer, ArrayRef<Value> carried) { return Values{b.mul(carried[0], outerField(outer, Size))}; });
  Value thread = arith::ExtUIOp::create(b, b.i64, call.thread),
        numThreads = arith::ExtUIOp::create(b, b.i64, call.numThreads);
  Value begin = quotient(b.mul(items[0], thread), numThreads),
        end = quotient(b.mul(items[0], b.add(thread, 1)), numThreads);
  b.loop(begin, end, 1, [&](Value item) { emitItem(item); });
  return b.finish();
}

void ContractionBuilder::emitItem(Value item) {
  Value rowBegin = b.mul(remainder(item, numRowBlocks), rowBlock), rest = quotient(item, numRowBlocks);
  Value rowEnd = b.minimum(m, b.add(rowBegin, rowBlock)), panel = b.mul(remainder(rest, numChunks), tile.panels);
  moveToOuter(quotient(rest, numChunks));
  Value isWhole = b.lessThan(b.add(panel, tile.panels - 1), numPanels);
  b.branch(
      isWhole, [&] { emitPanels(panel, tile.panels, rowBegin, rowEnd); },
      [&] { b.loop(panel, numPanels, 1, [&](Value single) { emitPanels(single, 1, rowBegin, rowEnd); }); });
}

// Which a, b and c stand at outer index `outer`, the first outer loop counting fastest.
void ContractionBuilder::moveToOuter(Value outer) {
  Value zero = b.index(0);
  Values at = b.loop(zero, call.numOuter, 1, {outer, zero, zero, zero}, [&](Value loop, ArrayRef<Value> carried) {
    Value size = outerField(loop, Size), index = remainder(carried[0], size);
    auto move = [&](Value from, OuterField by) { return b.add(from, b.mul(index, outerField(loop, by))); };
    return Values{quotient(carried[0], size), move(carried[1], MoveA), move(carried[2], MoveB),
                  move(carried[3], MoveC)};
  });
  matrixA = floatAt(call.a, at[1]);
  matrixB = floatAt(call.b, at[2]);
  matrixC = floatAt(call.c, at[3]);
}

// Lanes of `panel` that are columns of c.
Value ContractionBuilder::maskOf(Value panel) {
  return b.lanesBelow(n, b.mul(panel, lanes));
}

void ContractionBuilder::emitPanels(Value panel, int64_t panels, Value rowBegin, Value rowEnd) {
  Value isContiguous = isEqual(bColumn, 1), isFull = b.lessThan(b.mul(b.add(panel, panels), lanes), b.add(n, 1));
  // What one tile of rows reads but once stays where it lies.
  Value isFew = b.lessThan(b.sub(rowEnd, rowBegin), b.index(tile.heights.front() + 1));
  Value readsInPlace = arith::AndIOp::create(b, arith::AndIOp::create(b, isContiguous, isFull), isFew);
  b.loop(b.index(0), k, depthBlock, [&](Value depth) {
    Value depthEnd = b.minimum(k, b.add(depth, depthBlock));
    b.branch(
        readsInPlace, [] {},
        [&] {
          b.branch(
              isContiguous, [&] { packRows(panel, panels, depth, depthEnd); },
              [&] { packColumns(panel, panels, depth, depthEnd); });
        });
    Value inPlace = floatAt(matrixB, b.add(b.mul(depth, bRow), b.mul(panel, lanes)));
    Value source = arith::SelectOp::create(b, readsInPlace, inPlace, scratch);
    Value stride = arith::SelectOp::create(b, readsInPlace, b.mul(bRow, 4), b.index(panels * panelBytes));
    Value row = rowBegin;
    for (int64_t height : tile.heights) {
      Value end = b.wholeSteps(row, rowEnd, height);
      b.loop(row, end, height, [&](Value at) { emitTile(at, height, panel, panels, depth, depthEnd, source, stride); });
      row = end;
    }
  });
}

// scratch[i][p] = b[depth + i][panel + p], where rows of b are contiguous
void ContractionBuilder::packRows(Value panel, int64_t panels, Value depth, Value depthEnd) {
  Values masks;
  for (int64_t p = 0; p < panels; ++p)
    masks.push_back(maskOf(b.add(panel, p)));
  b.loop(depth, depthEnd, 1, [&](Value at) {
    Value from = floatAt(matrixB, b.add(b.mul(at, bRow), b.mul(panel, lanes)));
    Value to = b.at(scratch, b.mul(b.sub(at, depth), panels * panelBytes));
    for (int64_t p = 0; p < panels; ++p)
      b.store(b.loadMasked(b.v16f32, b.at(from, p * panelBytes), masks[p]), b.at(to, p * panelBytes));
  });
}

// The same for any strides, a column of b at a time.
void ContractionBuilder::packColumns(Value panel, int64_t panels, Value depth, Value depthEnd) {
  b.loop(b.index(0), b.index(panels * lanes), 1, [&](Value lane) {
    Value column = b.add(b.mul(panel, lanes), lane), from = floatAt(matrixB, b.mul(column, bColumn));
    auto to = [&](Value at) {
      return b.at(scratch, b.add(b.mul(b.sub(at, depth), panels * panelBytes), b.mul(lane, 4)));
    };
    b.branch(
        b.lessThan(column, n),
        [&] {
          b.loop(depth, depthEnd, 1, [&](Value at) { b.store(b.load(b.f32, floatAt(from, b.mul(at, bRow))), to(at)); });
        },
        [&] { b.loop(depth, depthEnd, 1, [&](Value at) { b.store(b.real(0), to(at)); }); });
  });
}

// c (height, panels, 16) += a (height, depth … depthEnd) * source (depth … depthEnd, panels, 16)
void ContractionBuilder::emitTile(Value row, int64_t height, Value panel, int64_t panels, Value depth, Value depthEnd,
                                  Value source, Value sourceStride) {
  // setup
  Values masks, rowsOfA, rowsOfC, sums;
  for (int64_t p = 0; p < panels; ++p)
    masks.push_back(maskOf(b.add(panel, p)));
  for (int64_t r = 0; r < height; ++r) {
    rowsOfA.push_back(floatAt(matrixA, b.mul(b.add(row, r), aRow)));
    rowsOfC.push_back(floatAt(matrixC, b.add(b.mul(b.add(row, r), cRow), b.mul(panel, lanes))));
    for (int64_t p = 0; p < panels; ++p)
      sums.push_back(b.loadMasked(b.v16f32, b.at(rowsOfC[r], p * panelBytes), masks[p]));
  }
  // compute
  sums = b.loop(depth, depthEnd, 1, sums, [&](Value at, ArrayRef<Value> carried) {
    Values next(carried), columns;
    Value from = b.at(source, b.mul(b.sub(at, depth), sourceStride)), column = b.mul(at, aColumn);
    for (int64_t p = 0; p < panels; ++p)
      columns.push_back(b.load(b.v16f32, b.at(from, p * panelBytes)));
    for (int64_t r = 0; r < height; ++r) {
      Value x = b.splat(b.load(b.f32, floatAt(rowsOfA[r], column)));
      for (int64_t p = 0; p < panels; ++p)
        next[r * panels + p] = b.fma(x, columns[p], next[r * panels + p]);
    }
    return next;
  });
  // finish
  for (int64_t i = 0; i < height * panels; ++i)
    b.storeMasked(sums[i], b.at(rowsOfC[i / panels], i % panels * panelBytes), masks[i % panels]);
}

func::FuncOp heddle::buildContraction(ModuleOp module, StringRef name, ScheduleAttr schedule) {
  return ContractionBuilder(module, name, schedule).emit();
}

namespace {

// One kernel serves all contractions.
class ContractionEmitter : public KernelEmitterOf<linalg::GenericOp> {
protected:
  FailureOr<std::string> nameOf(linalg::GenericOp op) const override { return std::string("contraction_f32"); }
  FailureOr<Kernels> build(linalg::GenericOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    return oneKernel(module.once(name, [&] { return buildContraction(module.code, name, schedule); }));
  }
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::product() {
  return std::make_unique<ContractionEmitter>();
}
