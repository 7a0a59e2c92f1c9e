// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights in registers: vectors of 16 lanes, one for each column of W.
#ifndef HEDDLE_COMPILER_CODEGEN_CPU_WEIGHTREADER_H
#define HEDDLE_COMPILER_CODEGEN_CPU_WEIGHTREADER_H

#include "compiler/codegen/cpu/KernelBuilder.h"
#include "compiler/codegen/cpu/PackedLayout.h"

namespace heddle {

// Reads one unit (PackedLayout::unitValues columns) of one panel.
class WeightReader {
public:
  WeightReader(KernelBuilder &builder, const PackedLayout &layout, mlir::Value unit);

  // Column `i` of the unit as vector<16xf32>. Every kernel gets the same bits for it.
  mlir::Value column(int64_t i);
  // Quantised: the scales and mins of the block as vector<16xf32>.
  mlir::Value scale() const { return scales; }
  mlir::Value min() const { return mins; }
  // Quantised: the codes of columns 4g … 4g + 3 as vector<16xi32> of four bytes each.
  mlir::Value codes(int64_t group);

private:
  mlir::Value loadScales(int64_t offset);

  KernelBuilder &b;
  const PackedLayout &layout;
  mlir::Value unit, scales, mins;
  // The group of bytes that was read last: neighbouring columns share it.
  int64_t cachedGroup = -1;
  mlir::Value cached;
};

} // namespace heddle

#endif
