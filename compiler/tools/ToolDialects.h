// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dialects that every tool reads: upstream's and ours.
#ifndef HEDDLE_COMPILER_TOOLS_TOOLDIALECTS_H
#define HEDDLE_COMPILER_TOOLS_TOOLDIALECTS_H

#include "dialect/HeddleDialect.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"

namespace heddle {

inline void registerToolDialects(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<HeddleDialect>();
  registerBufferizationModels(registry);
}

} // namespace heddle

#endif
