// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Host code that calls Halide's kernels on a device.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_ENQUEUER_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_ENQUEUER_H

#include "compiler/codegen/halide/BufferBuilder.h"
#include "compiler/codegen/kernel/HostKernel.h"
#include "compiler/codegen/kernel/KvType.h"
#include "compiler/weights/PackedLayout.h"

namespace heddle {

inline constexpr BufferElement f32Element = {buffer_layout::Float, 32}, i32Element = {buffer_layout::SignedInteger, 32};
inline constexpr BufferElement bf16Element = {buffer_layout::UnsignedInteger, 16}; // as Halide reads it

// Numbers of the cache, 16-bit ones as Halide reads them, or codes.
inline BufferElement kvElement(KvType kv) {
  return kv == KvType::F32    ? f32Element
         : kv == KvType::Q8_0 ? BufferElement{buffer_layout::SignedInteger, 8}
                              : BufferElement{buffer_layout::UnsignedInteger, 16};
}

// Buffers, in the order of the pipeline's arguments, then the call. Pointers are the device's addresses.
class Enqueuer : public HostKernel {
public:
  Enqueuer(mlir::Location loc, mlir::ModuleOp code, llvm::StringRef name, llvm::SmallVector<mlir::Type> parameters);

  mlir::Value constant(int64_t value) { return b.constant(value); }

  void add(BufferElement element, mlir::Value at, llvm::ArrayRef<BufferDim> dims);
  // (width, rows), rows `stride` elements apart.
  void addRows(BufferElement element, mlir::Value at, int64_t width, mlir::Value stride, mlir::Value rows);
  void addVector(BufferElement element, mlir::Value at, mlir::Value count);
  // (head_dim, heads, rows)
  void addHeads(mlir::Value at, int64_t headDim, int64_t heads, mlir::Value stride, mlir::Value rows);
  // Each view of packed weights.
  void addWeights(mlir::Value at, const PackedLayout &layout, int64_t n, int64_t k, bool inWords = false);
  // One plane of a cache's pages: (head_dim, 64, heads, pages), of codes their scales behind it, as a CachedPlane reads them. `isCross`: of the cache
  // of sources.
  void addPages(KvType kv, int64_t headDim, int64_t heads, mlir::Value planeOffset, bool isCross = false);
  // Both: (head_dim, 64, heads, pages, 2).
  void addBothPages(KvType kv, int64_t headDim, int64_t heads, mlir::Value keyOffset, mlir::Value valueOffset,
                    bool isCross = false);
  // What a plane of the cache gets: rows `stride` elements apart, and the plane's bytes from the begin of a page.
  struct Plane {
    mlir::Value rows, stride, offset;
  };
  // One plane, or both, of codes and scales as bytes: (bytes of a plane, heads, pages, planes).
  void addBytesOfPages(int64_t headDim, int64_t heads, llvm::ArrayRef<Plane> planes, bool isCross = false);
  // A state in the pages of the cache: (numbers, pages).
  void addStates(int64_t numbers, mlir::Value offset);
  // row_sequence, cache_positions, page_table; the first two from row `firstRow` on, null: all.
  void addPlaces(bool isCross = false, mlir::Value firstRow = {});
  // sequence_rows: (2, sequences)
  void addSequenceRows();

  // Calls the kernel with the buffers added so far, which are then forgotten.
  void enqueue(llvm::StringRef symbol);
  // The same with the first of several kernels that takes so many rows. If the kernels' bits differ, each step with fixed forms takes the
  // one for `fixedRows`, and each encode the last.
  struct RowsKernel {
    std::string symbol;
    int64_t maxRows; // rising; 0, of the last: any number
  };
  void enqueueByRows(mlir::Value rows, llvm::ArrayRef<RowsKernel> kernels, std::optional<int64_t> fixedRows = {});
  // The number that it chooses by.
  mlir::Value chosenBy(mlir::Value rows, std::optional<int64_t> fixedRows);

private:
  void call(llvm::StringRef symbol);
  // Of elements of so many bytes, `columns` in a row.
  llvm::SmallVector<BufferDim> pageDims(int64_t columns, int64_t heads, int64_t planeBytes, int64_t elementBytes,
                                        bool isCross);
  mlir::Value pagesAt(mlir::Value planeOffset, bool isCross);

  llvm::SmallVector<mlir::Value> arguments; // the device, then buffers
};

} // namespace heddle

#endif
