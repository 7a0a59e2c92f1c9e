// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/ActivationOf.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

GluOp heddle::activationOf(Operation *product) {
  auto onlyUser = [](Operation *value) { return value->hasOneUse() ? *value->user_begin() : nullptr; };
  Operation *user = onlyUser(product);
  if (isa_and_present<tensor::ExpandShapeOp>(user))
    user = onlyUser(user);
  auto glu = dyn_cast_if_present<GluOp>(user);
  return glu && !glu.getUp() ? glu : GluOp();
}

ActivationKindAttr heddle::takeActivation(GluOp activation) {
  ActivationKindAttr kind = activation.getActivationAttr();
  activation.getResult().replaceAllUsesWith(activation.getGate());
  activation.erase();
  return kind;
}
