// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the products with float and with int8 activations share; internal to this folder.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_MATMULEMITTER_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_MATMULEMITTER_H

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/targets/cpu/Bf16Pairs.h"
#include "compiler/codegen/targets/cpu/KernelBuilder.h"
#include "compiler/codegen/targets/cpu/MatmulTiles.h"
#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "compiler/codegen/targets/cpu/TileUnit.h"

#include <optional>

namespace heddle {

class BlockReader;
class WideDotProduct;

// How many rows are multiplied as words: columns of K whose products are one exact sum of 32 bits, the largest integer of a row that allows it, and
// whether a word is a code less its zero point, or that times its block's own scale.
struct WordForm {
  int64_t columns;
  int32_t largest;
  bool holdsScales;
};
WordForm wordFormOf(const PackedLayout &layout);

class MatmulEmitter {
public:
  MatmulEmitter(mlir::ModuleOp module, llvm::StringRef name, const MatmulSpec &spec, ScheduleAttr schedule,
                const CpuTarget &target);
  void emit();
  mlir::func::FuncOp finish() { return b.finish(); }

private:
  using Values = llvm::SmallVector<mlir::Value>;
  using ValuesRef = llvm::ArrayRef<mlir::Value>;

  // Calls body(panel, panels) for the slice's panels of W, `panels` at a time, then what is left one by one; gated, in
  // whole pairs.
  void forPanels(int64_t panels, llvm::function_ref<void(mlir::Value panel, int64_t panels)> body);
  // Calls body(row, rows) for [begin, end) in the tile heights given, largest first; the last is 1.
  void forRows(llvm::ArrayRef<int64_t> heights, mlir::Value begin, mlir::Value end,
               llvm::function_ref<void(mlir::Value row, int64_t rows)> body);
  mlir::Value panelAddress(mlir::Value panel);
  // rowIndex[row]
  mlir::Value indirect(mlir::Value row);
  // Where row `row` of the call lies in `act`, and its first element there.
  mlir::Value storedRow(mlir::Value row);
  mlir::Value activationRow(mlir::Value row);
  // One row of a tile: the finished sums of W's panels from `panel` on, through the epilogue to `out`.
  void storeRow(ValuesRef sums, mlir::Value panel, mlir::Value row);
  void storePanel(mlir::Value sum, mlir::Value outPanel, mlir::Value row);
  // Rows of the result: f32 or bf16.
  struct Destination {
    mlir::Value address, stride; // in elements
    int64_t elementBytes;
  };
  Destination outOf(bool isMany);
  mlir::Value addressIn(const Destination &to, mlir::Value row, mlir::Value outPanel);
  // The weight of entry `row` of an expert's list, in every lane; and what becomes of a sum where it scales the input.
  mlir::Value rowScale(mlir::Value row);
  mlir::Value scaled(mlir::Value sum, mlir::Value row);
  void storeGated(mlir::Value gate, mlir::Value up, mlir::Value outPanel, mlir::Value row);
  mlir::Value lanesOf(mlir::Value column);
  mlir::Value loadLanes(mlir::Value from, mlir::Value mask);
  void storeLanes(mlir::Value sum, mlir::Value row, mlir::Value outPanel, mlir::Value mask);
  mlir::Value activate(mlir::Value x);
  Values zeros(int64_t count);

  void emitFloat();
  void emitQ8();
  void emitByRows();

  // f32 and bf16. Columns of W in a line of 64 bytes, and bytes of an activation; their product is 4.
  bool isBf16() const { return form == MatmulActivation::Bf16; }
  int64_t lineValues() const { return isBf16() ? 2 : 1; }
  int64_t activationBytes() const { return 4 / lineValues(); }
  bool readsLinesInPlace() const; // no unpacking
  Values readUnit(mlir::Value unit);
  Values readQuad(BlockReader &reader, mlir::Value number, int64_t share);
  mlir::Value loadActivation(mlir::Value address);
  mlir::Value multiplyAdd(mlir::Value activation, mlir::Value line, mlir::Value sum);
  // Rows × panels with the weights unpacked in registers; for few rows.
  void emitFewRows(const MatmulTile &tile);
  Values accumulateUnits(ValuesRef panelAddresses, ValuesRef rowAddresses, Values sums);
  Values accumulatePlain(ValuesRef units, ValuesRef activations, int64_t columns, Values sums);
  Values accumulateBlock(llvm::MutableArrayRef<BlockReader> readers, ValuesRef activations, Values sums);
  void accumulateLine(ValuesRef lines, ValuesRef activations, int64_t offset, Values &sums);
  // Weights of a block of K unpacked once into a scratch panel, then reused by many rows.
  struct LineBlock {
    mlir::Value address; // (panels, lines, 64 bytes)
    int64_t panelStride; // bytes
    int64_t panels;
    mlir::Value begin, columns; // of K
    mlir::Value next = {};      // what is read behind these, of the same shape; null where it is unpacked
  };
  using RowAddress = llvm::function_ref<mlir::Value(mlir::Value row)>;
  void emitManyRows(const MatmulTile &tile);
  void emitRowBlock(const MatmulTile &tile, mlir::Value panel, int64_t panels, mlir::Value rowBegin,
                    mlir::Value rowEnd);
  void unpackPanels(mlir::Value panel, int64_t panels, mlir::Value begin, mlir::Value end);
  void unpackBlock(BlockReader reader, mlir::Value lines);
  mlir::Value nextLines(const LineBlock &block, mlir::Value row, mlir::Value rowBegin, mlir::Value rowEnd);
  void emitManyRowsTile(const LineBlock &block, ValuesRef activations, mlir::Value partial, mlir::Value next);
  Values addLines(const LineBlock &block, ValuesRef activations, mlir::Value first, int64_t count, Values sums);
  Values addMatrices(const LineBlock &block, ValuesRef activations, mlir::Value first, Values sums);
  mlir::Value loadLine(const LineBlock &block, mlir::Value line, int64_t panel);

  // bf16 with AMX
  bool usesTileUnit() const { return isBf16() && target.hasBf16Tiles(); }
  void emitTileUnit();
  void forPairs(mlir::Value begin, mlir::Value end, llvm::function_ref<void(mlir::Value panel, int64_t panels)> body);
  void emitTileUnitSlab(mlir::Value begin, mlir::Value end);
  mlir::Value packedColumns(mlir::Value panel, mlir::Value column);
  void emitTileUnitRows(const LineBlock &block, mlir::Value panel, mlir::Value rowBegin, mlir::Value rowEnd,
                        RowAddress sums);
  void prefetchWeights(const LineBlock &block, mlir::Value row, mlir::Value rowBegin, mlir::Value rowEnd);
  void emitTileUnitBlock(const LineBlock &block, mlir::Value row, mlir::Value height, int64_t rowTiles,
                         llvm::function_ref<void(mlir::Value step)> between);
  void emitTileUnitBlocks(const LineBlock &block, mlir::Value panel, mlir::Value row, RowAddress sums);
  void prefetchOut(const LineBlock &block, mlir::Value panel, mlir::Value row);
  // Where a block of columns lies in K.
  struct ColumnPhase {
    bool isFirst, isLast;
  };
  void forPhase(const LineBlock &block, llvm::function_ref<void(ColumnPhase phase)> body);
  mlir::Value partialOf(mlir::Value block);
  void finishRows(const LineBlock &block, mlir::Value panel, mlir::Value row, mlir::Value height, RowAddress sums);
  void finishRow(ColumnPhase phase, int64_t panels, mlir::Value partial, mlir::Value sums, mlir::Value panel,
                 mlir::Value row);
  int64_t blockColumns() const { return tiles.lineBlock * lineValues(); } // in a block of K
  mlir::Value columnsFrom(mlir::Value column);
  int64_t rowsOfStep() const;
  void forRowsOfStep(mlir::Value step, llvm::function_ref<void(mlir::Value row)> body);
  void clearSums(int64_t rowTiles, int64_t panels);
  void storeSums(int64_t rowTiles, int64_t panels, mlir::Value to);
  void multiplyPanel(int64_t panel, int64_t rowTiles, mlir::Value lines);
  void configureTiles(mlir::Value height, int64_t rowTiles);
  int64_t mostStreamedRows() const;
  void emitStreamedPanels(mlir::Value begin, mlir::Value end);
  void addStreamedPanels(mlir::Value panel, int64_t panels, mlir::Value row, mlir::Value height, int64_t rowTiles);
  void addStreamedBlock(mlir::Value panel, int64_t panels, mlir::Value row, int64_t rowTiles, mlir::Value block,
                        llvm::function_ref<void(mlir::Value step)> between);
  bool stagesActivations() const;
  int64_t stagedStride() const;
  void stageActivations(const LineBlock &block, mlir::Value row, mlir::Value height);

  // Integers. Where a row's codes, scale and terms of a step along K begin, or of a block of weights in it.
  struct IntegerRow {
    mlir::Value codes, scales, terms;
  };
  // The exact sums of a block's products with each row, of the p-th panel.
  using BlockDots = llvm::function_ref<Values(BlockReader &weights, llvm::ArrayRef<IntegerRow> blockRows, int64_t p)>;
  void emitIntegerTile(mlir::Value panel, int64_t panels, mlir::Value row, llvm::ArrayRef<IntegerRow> tileRows,
                       BlockDots emitDots, int64_t together = 1);
  Values sumIntegerPanels(mlir::Value panel, int64_t panels, llvm::ArrayRef<IntegerRow> tileRows, BlockDots emitDots);
  llvm::SmallVector<IntegerRow> stepRows(llvm::ArrayRef<IntegerRow> rows, mlir::Value step, int64_t block);
  void addIntegerBlock(ValuesRef dots, mlir::Value ownScale, mlir::Value ownMin, llvm::ArrayRef<IntegerRow> blockRows,
                       int64_t p, int64_t panels, Values &sums);

  // 16-bit integers, rounded here
  void emitInt16();
  void forRoundedRows(WideDotProduct &dot, llvm::function_ref<void(mlir::Value begin, mlir::Value end)> body);
  void roundInt16(WideDotProduct &dot, mlir::Value row, IntegerRow to);
  IntegerRow roundedRow(mlir::Value row, int64_t offset);
  Values emitInt16Dots(BlockReader &weights, llvm::ArrayRef<IntegerRow> blockRows);
  int64_t int16StepBytes() const;
  int64_t int16RowBytes() const;
  static constexpr int64_t int16PlaneBytes = 32; // of a step
  // 16-bit integers with AMX: as they are rounded, all rows lie equally far apart
  bool usesInt16Tiles() const;
  bool isInt16UnitHeight(int64_t height) const;
  void beginInt16Unit();
  void endInt16Unit();
  mlir::Value fillsInt16Unit();
  void emitInt16UnitTile(mlir::Value panel, int64_t panels, mlir::Value row, llvm::ArrayRef<IntegerRow> tileRows);
  Values sumInt16Unit(mlir::Value panel, llvm::ArrayRef<IntegerRow> tileRows);
  void multiplyPlanes(mlir::Value codes, mlir::Value planes, mlir::Value dots);
  Values loadPlaneDots(mlir::Value dots, llvm::ArrayRef<IntegerRow> blockRows);
  // Stack of the terms that rows add to every panel.
  mlir::Value termMemory();
  // Many rows as integers, with the weights of a unit of K staged as 16-bit words.
  struct WordMemory {
    int64_t rows, columns, panels;      // that are computed together: K's columns, and panels of W
    int64_t rowBytes;                   // of a row's integers
    int64_t tileBytes;                  // of a tile's sums
    mlir::Value integers, sums, staged; // of the rows; (panels, rows, 16); a unit of a tile's panels
    mlir::Value unfinished;             // two tiles of sums in a unit
  };
  WordMemory planWords();
  void emitWords();
  void emitWordSlab(mlir::Value begin, mlir::Value end, mlir::Value rowBegin, mlir::Value rowEnd);
  void roundWords(mlir::Value row, mlir::Value begin, mlir::Value end, mlir::Value to);
  void stageWords(mlir::Value panel, int64_t panels, mlir::Value begin, mlir::Value end);
  void addWordTile(mlir::Value integers, mlir::Value sums, int64_t height, int64_t panels, mlir::Value columns);
  Values emitWordDots(mlir::Value lines, mlir::Value codes, mlir::Value integers, int64_t height, int64_t panels);

  // int8
  void emitQ8Terms(mlir::Value row, mlir::Value rowTerms);
  void emitQ8Tile(mlir::Value panel, int64_t panels, mlir::Value row, int64_t height, mlir::Value tileTerms);
  Values emitQ8Dots(BlockReader &weights, llvm::ArrayRef<IntegerRow> blockRows);
  // int8 with AMX: tiles hold rows that lie equally far apart
  bool usesInt8Tiles() const {
    return target.hasAvx512() && target.has("amx-tile") && target.has("amx-int8") && spec.rows != MatmulRows::Gathered;
  }
  int64_t q8UnitRows() const;
  void beginQ8Unit();
  void endQ8Unit();
  mlir::Value fillsQ8Unit();
  Values emitQ8UnitDots(BlockReader &weights, llvm::ArrayRef<IntegerRow> blockRows, int64_t p);
  mlir::Value unitCodesOf(BlockReader &weights, int64_t p);

  static constexpr int64_t lineBytes = 4 * PackedLayout::panelRows;

  KernelBuilder b;
  const MatmulSpec &spec;
  const CpuTarget &target;
  MatmulTiles tiles;
  Bf16Pairs pairs;
  const MatmulCall call;
  // What is being multiplied: as `call.act` comes, or as `call.rounded` for many rows.
  MatmulActivation form;
  mlir::Value input, inputStride;
  llvm::SmallVector<Destination, 2> outs; // each takes the result
  mlir::Value scratch, partials, terms;
  std::optional<TileUnit> tileUnit;
  mlir::Value unitSums, unitPartials, staged, unitDots, unitCodes;
  int32_t zeroPoint = 0;            // of the codes as the dot product reads them
  mlir::Value rounded, rowsRounded; // rows as 16-bit integers, and the first of them
  int64_t roundedRows = 0;          // at once
  int64_t panelsOfOneRow = 1;       // whose weights are read side by side
  mlir::Value termStack;
  WordMemory words;
};

} // namespace heddle

#endif
