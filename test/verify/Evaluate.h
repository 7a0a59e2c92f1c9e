// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates @main of a module given as text.
#ifndef HEDDLE_TEST_VERIFY_EVALUATE_H
#define HEDDLE_TEST_VERIFY_EVALUATE_H

#include "compiler/interpreter/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <cmath>

namespace heddle {

using Reals = std::vector<double>;
using Integers = std::vector<int64_t>;

inline mlir::MLIRContext &testContext() {
  static mlir::MLIRContext *context = [] {
    mlir::DialectRegistry registry;
    mlir::registerAllDialects(registry);
    registry.insert<HeddleDialect>();
    return new mlir::MLIRContext(registry);
  }();
  return *context;
}

class Evaluation {
public:
  explicit Evaluation(const std::string &source, InterpreterOptions options = {})
      : module(mlir::parseSourceString<mlir::ModuleOp>(source, &testContext())), interpreter(std::move(options)) {
    EXPECT_TRUE(module) << source;
  }

  RuntimeValue f32(llvm::ArrayRef<int64_t> shape, const Reals &values) {
    return real(mlir::Float32Type::get(&testContext()), shape, values);
  }
  RuntimeValue bf16(llvm::ArrayRef<int64_t> shape, const Reals &values) {
    return real(mlir::BFloat16Type::get(&testContext()), shape, values);
  }
  RuntimeValue f16(llvm::ArrayRef<int64_t> shape, const Reals &values) {
    return real(mlir::Float16Type::get(&testContext()), shape, values);
  }
  RuntimeValue i32(llvm::ArrayRef<int64_t> shape, const Integers &values) { return integer(32, shape, values); }
  RuntimeValue i1(llvm::ArrayRef<int64_t> shape, const Integers &values) { return integer(1, shape, values); }
  RuntimeValue index(int64_t value) {
    return makeValue(Tensor::scalar(mlir::IndexType::get(&testContext()), {0, value}));
  }
  // The module's own i-th argument type, for caches.
  std::shared_ptr<KvCache> cache(unsigned argument) {
    return std::make_shared<KvCache>(llvm::cast<KvCacheType>(main().getArgumentTypes()[argument]));
  }

  llvm::SmallVector<RuntimeValue> call(llvm::ArrayRef<RuntimeValue> arguments) {
    mlir::FailureOr<llvm::SmallVector<RuntimeValue>> results = interpreter.call(main(), arguments);
    EXPECT_TRUE(mlir::succeeded(results));
    return mlir::succeeded(results) ? *results : llvm::SmallVector<RuntimeValue>{};
  }
  Tensor result(llvm::ArrayRef<RuntimeValue> arguments, unsigned i = 0) {
    auto results = call(arguments);
    return i < results.size() ? *std::get<TensorRef>(results[i]) : Tensor();
  }
  Reals reals(llvm::ArrayRef<RuntimeValue> arguments, unsigned i = 0) { return result(arguments, i).reals; }
  Integers integers(llvm::ArrayRef<RuntimeValue> arguments, unsigned i = 0) { return result(arguments, i).integers; }

  // What is wrong with this call; "" if nothing is.
  std::string error(llvm::ArrayRef<RuntimeValue> arguments) {
    std::string text;
    mlir::ScopedDiagnosticHandler handler(&testContext(),
                                          [&](mlir::Diagnostic &diagnostic) { text += diagnostic.str(); });
    EXPECT_TRUE(mlir::failed(interpreter.call(main(), arguments)));
    return text;
  }

private:
  mlir::func::FuncOp main() { return module->lookupSymbol<mlir::func::FuncOp>("main"); }
  static RuntimeValue real(mlir::Type type, llvm::ArrayRef<int64_t> shape, const Reals &values) {
    Tensor tensor = Tensor::zeros(type, shape);
    EXPECT_EQ(tensor.reals.size(), values.size());
    tensor.reals = values;
    tensor.round();
    return makeValue(std::move(tensor));
  }
  static RuntimeValue integer(unsigned width, llvm::ArrayRef<int64_t> shape, const Integers &values) {
    Tensor tensor = Tensor::zeros(mlir::IntegerType::get(&testContext(), width), shape);
    EXPECT_EQ(tensor.integers.size(), values.size());
    tensor.integers = values;
    return makeValue(std::move(tensor));
  }

  mlir::OwningOpRef<mlir::ModuleOp> module;
  Interpreter interpreter;
};

inline void expectNear(const Reals &actual, const Reals &expected, double limit) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], limit * std::fmax(1, std::fabs(expected[i]))) << "element " << i;
}

} // namespace heddle

#endif
