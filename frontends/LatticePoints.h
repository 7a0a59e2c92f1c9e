// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The code books of ggml's IQ1, IQ2 and IQ3 types: points of a lattice, which an index in the file names.
#ifndef HEDDLE_FRONTENDS_LATTICEPOINTS_H
#define HEDDLE_FRONTENDS_LATTICEPOINTS_H

#include <cstdint>

namespace heddle {

// A point of eight coordinates of 2 bits, 0 to 2, the first lowest.
extern const uint16_t iq2xxsPoints[256], iq2xsPoints[512], iq2sPoints[1024], iq1Points[2048];
// A point of four coordinates of 3 bits, an octal digit each, the first lowest.
extern const uint16_t iq3xxsPoints[256], iq3sPoints[512];

} // namespace heddle

#endif
