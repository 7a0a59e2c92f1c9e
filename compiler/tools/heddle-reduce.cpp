// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shrinks a module while a script says that it is still interesting: mlir-reduce with our dialect and heddle-reduce-module. `heddle verify` or
// heddle-opt --heddle-check in the script finds the smallest module that a pass gets wrong.

#include "compiler/Pipeline.h"
#include "compiler/tools/ReduceModule.h"
#include "compiler/tools/ToolDialects.h"

#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

int main(int argc, char **argv) {
  mlir::registerAllPasses();
  heddle::registerPasses();
  heddle::registerReduceModule();
  mlir::DialectRegistry registry;
  heddle::registerToolDialects(registry);
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
