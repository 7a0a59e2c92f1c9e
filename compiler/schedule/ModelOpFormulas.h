// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Model ops of graphs as upstream's ops.
#ifndef HEDDLE_COMPILER_SCHEDULE_MODELOPFORMULAS_H
#define HEDDLE_COMPILER_SCHEDULE_MODELOPFORMULAS_H

#include "mlir/IR/PatternMatch.h"

namespace heddle {

// layer_norm, rms_norm, glu, softcap and rope as what their formulas say (dialect/ModelOps.td), in f32.
void populateModelOpFormulas(mlir::RewritePatternSet &patterns);

} // namespace heddle

#endif
