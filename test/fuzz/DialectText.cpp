// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialect/HeddleDialect.h"
#include "test/fuzz/Targets.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace heddle;

static MLIRContext &makeContext() {
  static DialectRegistry registry;
  registry
      .insert<HeddleDialect, arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect, tensor::TensorDialect>();
  static MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  context.getDiagEngine().registerHandler([](Diagnostic &) { return success(); });
  return context;
}

// Canonical forms of our ops alone: what a crash says is then about them.
static void canonicalize(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  for (RegisteredOperationName name : module.getContext()->getRegisteredOperationsByDialect("heddle"))
    name.getCanonicalizationPatterns(patterns, module.getContext());
  (void)applyPatternsGreedily(module, std::move(patterns));
}

static std::string printed(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

std::string fuzz::dialectText(std::string_view bytes) {
  static MLIRContext &context = makeContext();
  std::string source(bytes); // ends in the zero at which the lexer stops
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(source, &context);
  if (!module)
    return {};
  if (!parseSourceString<ModuleOp>(printed(*module), &context))
    return "what is printed cannot be read:\n" + printed(*module);
  canonicalize(*module);
  if (failed(verify(*module)))
    return "a canonical form does not verify:\n" + printed(*module);
  return {};
}
