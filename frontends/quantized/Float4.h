// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights of E2M1, numbers of 4 bits (OCP Microscaling Formats specification 1.0), two to a byte, the lower bits of which are the earlier one, with a scale
// for each block of a row.
#ifndef HEDDLE_FRONTENDS_QUANTIZED_FLOAT4_H
#define HEDDLE_FRONTENDS_QUANTIZED_FLOAT4_H

#include "frontends/WeightRestorer.h"

namespace heddle {

// Restores MODULE.weight (out, in) of the numbers `packed` (out, in / 2), a name behind that of the module.
struct Float4Parts {
  const char *packed, *scales;
  const char *factor = nullptr; // one number that multiplies all scales of a matrix, or `divides` them
  bool divides = false;
};
// NVFP4: scales (out, in / 16) are E4M3.
Status restoreNvfp4(WeightRestorer &weights, const std::string &module, const Float4Parts &parts);
// MXFP4: scales (out, in / 32) are powers of two, E8M0.
Status restoreMxfp4(WeightRestorer &weights, const std::string &module, const Float4Parts &parts);

// 32 numbers as a block of ggml's MXFP4.
void putMxfp4Block(uint8_t scale, const uint8_t *pairs, uint8_t *out);

} // namespace heddle

#endif
