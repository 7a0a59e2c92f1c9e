// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the products with f32 and with int8 activations share; internal to this folder.
#ifndef HEDDLE_COMPILER_CODEGEN_CPU_MATMULEMITTER_H
#define HEDDLE_COMPILER_CODEGEN_CPU_MATMULEMITTER_H

#include "compiler/codegen/cpu/KernelBuilder.h"
#include "compiler/codegen/cpu/MatmulKernel.h"
#include "compiler/codegen/cpu/MatmulTiles.h"

namespace heddle {

class MatmulEmitter {
public:
  MatmulEmitter(mlir::ModuleOp module, llvm::StringRef name, const MatmulSpec &spec, const CpuTarget &target);
  void emitF32();
  void emitQ8();
  mlir::func::FuncOp finish() { return b.finish(); }

private:
  using Values = llvm::SmallVector<mlir::Value>;
  using ValuesRef = llvm::ArrayRef<mlir::Value>;

  // Calls body(panel, panels) for the slice's panels, `panels` at a time, then one by one.
  void forPanels(int64_t panels, llvm::function_ref<void(mlir::Value panel, int64_t panels)> body);
  // Calls body(row, rows) for [begin, end) in the tile heights given, largest first; the last is 1.
  void forRows(llvm::ArrayRef<int64_t> heights, mlir::Value begin, mlir::Value end,
               llvm::function_ref<void(mlir::Value row, int64_t rows)> body);
  mlir::Value panelAddress(mlir::Value panel);
  // The first element of a row of activations.
  mlir::Value activationRow(mlir::Value row);
  // Adds bias and residual to a finished sum and stores it.
  void storeResult(mlir::Value sum, mlir::Value panel, mlir::Value row);
  Values zeros(int64_t count);

  // f32: rows × panels with the weights unpacked in registers; for few rows.
  void emitFewRows(const MatmulTile &tile);
  Values accumulateUnits(ValuesRef panelAddresses, ValuesRef rowAddresses, Values sums);
  Values accumulatePlain(ValuesRef units, ValuesRef activations, int64_t columns, Values sums);
  Values accumulateBlock(ValuesRef blocks, ValuesRef activations, Values sums);
  void accumulateColumn(ValuesRef weights, ValuesRef activations, int64_t column, Values &sums);
  // f32: weights of a block of K unpacked once into a scratch panel, then reused by many rows.
  void emitManyRows(const MatmulTile &tile);
  void emitRowBlock(const MatmulTile &tile, mlir::Value panel, int64_t panels, mlir::Value rowBegin, mlir::Value rowEnd);
  void unpackPanels(mlir::Value panel, int64_t panels, mlir::Value begin, mlir::Value end);
  void unpackBlock(mlir::Value block, mlir::Value columns);
  void emitManyRowsTile(mlir::Value weights, int64_t panelStride, mlir::Value activations, int64_t rows,
                        int64_t panels, mlir::Value columns, mlir::Value partial);

  // int8
  void emitQ8Tile(mlir::Value panel, int64_t panels, mlir::Value row, int64_t rows);

  KernelBuilder b;
  const MatmulSpec &spec;
  const CpuTarget &target;
  MatmulTiles tiles;
  mlir::Value act, actScales, actSums, weights, bias, out, rows, actStride, outStride, panelBegin, panelEnd;
  mlir::Value scratch, partials;
};

} // namespace heddle

#endif
