// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers of the GPU ops. Comments cite the constraint in GpuOps.td that a check enforces.

#include "dialect/HeddleDialect.h"

using namespace mlir;
using namespace heddle;

LogicalResult WarpgroupMultiplyOp::verify() {
  size_t results = getResults().size(), sums = getSums().size();
  if ((sums && sums != results) || results % 4 || results < 4 || results > 128) // warpgroup_multiply_c1
    return emitOpError("must have as many results (") << results << ") as sums (" << sums << "), 4, 8, … or 128";
  if (getB().empty() || getA().size() != 4 * getB().size()) // warpgroup_multiply_c2
    return emitOpError("must have four registers of a (") << getA().size() << ") for each b (" << getB().size() << ")";
  return success();
}

LogicalResult WarpgroupWaitOp::verify() {
  if (getPending() > 7) // warpgroup_wait_c1
    return emitOpError("pending (") << getPending() << ") must lie between 0 and 7";
  if (getResults().size() != getSums().size()) // warpgroup_wait_c2
    return emitOpError("must have as many results (")
           << getResults().size() << ") as sums (" << getSums().size() << ")";
  return success();
}
