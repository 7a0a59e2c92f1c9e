// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How tokens choose their experts, recognised by what it computes.
#ifndef HEDDLE_COMPILER_RAISE_ROUTING_H
#define HEDDLE_COMPILER_RAISE_ROUTING_H

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"

namespace heddle {

struct Routing {
  LinearOp router; // gives the logits
  int64_t topK = 0;
  bool normalize = false;
  mlir::Value correction;                       // or none
  RoutingAttr attr;                             // null: softmax, no groups, no scale
  llvm::SmallVector<mlir::cf::AssertOp> checks; // of what the routing computes, such as its indices
};

// The routing whose weights of experts are `weights`, dimension `expertDim` the expert and the others the token. It is a function of
// the logits of one product: that function is evaluated on random logits, and is the routing that `moe` would do with the same
// choices if all weights agree, whatever ops select, scatter and mask. Null, and `reason` set, if none agrees. `checksHold`: what the graph
// checks of the routing has to hold for all logits; else it is not looked at, as that each expert has a token.
std::optional<Routing> readRouting(mlir::Value weights, unsigned expertDim, bool checksHold, std::string &reason);

} // namespace heddle

#endif
