// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The activation that a product may apply to what it writes.
#ifndef HEDDLE_COMPILER_SCHEDULE_ACTIVATIONOF_H
#define HEDDLE_COMPILER_SCHEDULE_ACTIVATIONOF_H

#include "dialect/HeddleDialect.h"

namespace heddle {

// The activation of `product`'s result, if nothing else reads that; a graph's may have its shape again before. Null if there is none.
GluOp activationOf(mlir::Operation *product);
// Takes the activation away from behind its product, which then is to apply it.
ActivationKindAttr takeActivation(GluOp activation);

} // namespace heddle

#endif
