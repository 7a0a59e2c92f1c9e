// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instructions that a warp executes together, and conversions: formulas of the PTX ISA on values.
#ifndef HEDDLE_TEST_PTX_WARP_H
#define HEDDLE_TEST_PTX_WARP_H

#include "test/ptx/Program.h"

#include <functional>

namespace heddle::ptx {

// [lane][operand]: 32-bit registers.
using WarpValues = std::vector<std::vector<uint32_t>>;

// shfl.sync.bfly: (value, lane mask, clamp, member mask)
void shuffleXor(const WarpValues &sources, WarpValues &results);
// mma.m16n8k16, bf16 with f32 sums: A in 4 registers, B in 2, C in 4.
void multiply(const WarpValues &sources, WarpValues &results);
// A warp's 16 rows of wgmma.m64nNk16, bf16 with f32 sums: A in 4 registers, as above; `b` has 16 numbers for each of `columns` columns; `sums` are registers, too:
// for each 8 columns those of a product as above.
void multiplyRows(const WarpValues &a, const uint8_t *b, int columns, WarpValues &sums);
// ldmatrix.x4.b16: `row(8 m + r)` is row r of matrix m, 8 values.
void loadMatrices(const std::function<const uint8_t *(int)> &row, bool isTransposed, WarpValues &results);

// To nearest, ties to even.
uint32_t toBf16(float value);
// cvt; `second` is the lower half of a pair.
uint64_t convert(const Instruction &instruction, uint64_t value, uint64_t second);

} // namespace heddle::ptx

#endif
