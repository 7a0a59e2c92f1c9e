// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights of E4M3, numbers of 8 bits (OCP 8-bit floating point specification 1.0), with scales beside them.
#ifndef HEDDLE_FRONTENDS_QUANTIZED_FLOAT8_H
#define HEDDLE_FRONTENDS_QUANTIZED_FLOAT8_H

#include "frontends/WeightRestorer.h"

namespace heddle {

// Restores NAME (out, in): each number times its scale, of which NAME with `scaleEnding` instead of "weight" has one, one for each row, one for
// each `block` columns of a row ("group"), or one for each block of `block` rows and columns.
struct Float8Scales {
  std::string ending;                      // "weight_scale_inv"
  int64_t blockRows = 0, blockColumns = 0; // 0: there are no blocks
};
Status restoreFloat8(WeightRestorer &weights, const std::string &module, const Float8Scales &scales);

} // namespace heddle

#endif
