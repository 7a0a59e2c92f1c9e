// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Comparison of tensors, and the check that names a pass.

#include "compiler/verify/NumericCheck.h"
#include "test/verify/Evaluate.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/Passes.h"

using namespace heddle;

static Tensor tensor(const Reals &values) {
  Tensor tensor = Tensor::zeros(mlir::Float32Type::get(&testContext()), {int64_t(values.size())});
  tensor.reals = values;
  return tensor;
}

TEST(Compare, MeasuresNmseAndTheWorstElement) {
  Difference difference = compare(tensor({1, 2, 4.5}), tensor({1, 2, 4}));
  EXPECT_DOUBLE_EQ(difference.nmse, 0.25 / 21);
  EXPECT_DOUBLE_EQ(difference.maxAbs, 0.5);
  EXPECT_EQ(difference.worst, 2);
  EXPECT_EQ(compare(tensor({1, 2}), tensor({1, 2})).worst, -1);
}

TEST(Compare, NaNAndInfinityMustAgree) {
  EXPECT_EQ(compare(tensor({NAN, -INFINITY}), tensor({NAN, -INFINITY})).nmse, 0);
  EXPECT_EQ(compare(tensor({NAN, 1}), tensor({1, 1})).nmse, INFINITY);
  EXPECT_EQ(compare(tensor({1, 1}), tensor({NAN, 1})).nmse, INFINITY);
  EXPECT_EQ(compare(tensor({INFINITY}), tensor({-INFINITY})).nmse, INFINITY);
  EXPECT_EQ(compare(tensor({1}), tensor({0})).nmse, INFINITY);
  EXPECT_FALSE(compare(tensor({1, 1}), tensor({1})).sameShape);
}

TEST(Compare, RandomTensorsFollowTheSeed) {
  mlir::Type f32 = mlir::Float32Type::get(&testContext());
  Tensor a = randomTensor(f32, {1000}, 7, 1), b = randomTensor(f32, {1000}, 7, 1), c = randomTensor(f32, {1000}, 8, 1);
  EXPECT_EQ(a.reals, b.reals);
  EXPECT_NE(a.reals, c.reals);
  double mean = 0, variance = 0;
  for (double x : a.reals)
    mean += x / 1000, variance += x * x / 1000;
  EXPECT_NEAR(mean, 0, 0.1);
  EXPECT_NEAR(variance, 1, 0.15);
}

//===- passes -------------------------------------------------------------===//

namespace {
// Scales every constant of a function.
struct ScaleConstants : mlir::PassWrapper<ScaleConstants, mlir::OperationPass<mlir::func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ScaleConstants)
  explicit ScaleConstants(double factor) : factor(factor) {}
  llvm::StringRef getArgument() const override { return "scale-constants"; }
  void runOnOperation() override {
    getOperation().walk([&](mlir::arith::ConstantFloatOp op) {
      llvm::APFloat value(static_cast<float>(op.value().convertToFloat() * factor));
      op.setValueAttr(mlir::FloatAttr::get(op.getType(), value));
    });
  }
  double factor;
};
} // namespace

static const char *twice = R"(
  func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %c = arith.constant 2.0 : f32
    %d = arith.constant 0 : index
    %n = tensor.dim %x, %d : tensor<?x4xf32>
    %s = tensor.splat %c[%n] : tensor<?x4xf32>
    %w = heddle.weight "gain" <type = "f32", file = 0, offset = 0> : tensor<4xf32>
    %0 = arith.mulf %x, %s : tensor<?x4xf32>
    %1 = heddle.rms_norm %0, %w {eps = 1.0e+1} : tensor<?x4xf32>, tensor<4xf32>
    return %1 : tensor<?x4xf32>
  })";

// What a checked pipeline says; whether it ran through.
static std::pair<bool, std::string> runChecked(const std::string &source, double factor,
                                               NumericCheckOptions options = {}) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(source, &testContext());
  std::string text;
  mlir::ScopedDiagnosticHandler handler(&testContext(),
                                        [&](mlir::Diagnostic &diagnostic) { text += diagnostic.str() + "\n"; });
  mlir::PassManager pm(&testContext());
  addNumericCheck(pm, std::move(options));
  pm.addNestedPass<mlir::func::FuncOp>(mlir::createCanonicalizerPass());
  pm.addNestedPass<mlir::func::FuncOp>(std::make_unique<ScaleConstants>(factor));
  pm.addPass(mlir::createCSEPass());
  bool ran = mlir::succeeded(pm.run(*module));
  return {ran, text};
}

TEST(NumericCheck, PassesThatKeepResultsAreSilent) {
  auto [ran, text] = runChecked(twice, 1);
  EXPECT_TRUE(ran);
  EXPECT_EQ(text, "");
}

TEST(NumericCheck, NamesThePassThatMovedAResult) {
  auto [ran, text] = runChecked(twice, 1.5);
  EXPECT_FALSE(ran);
  EXPECT_NE(text.find("after pass 'scale-constants', result 0 of 'main' differs: NMSE"), std::string::npos) << text;
  EXPECT_EQ(text.find("cse"), std::string::npos) << text;
}

TEST(NumericCheck, LimitIsAnOption) {
  NumericCheckOptions options;
  options.limit = 1;
  EXPECT_TRUE(runChecked(twice, 1.01, options).first);
  EXPECT_FALSE(runChecked(twice, 1.01).first);
}

TEST(NumericCheck, UnknownOpsAreAnErrorOrTheEnd) {
  std::string source =
      "func.func @main(%x: tensor<2xf32>) -> tensor<1x2xf32> {\n"
      "%e = tensor.empty() : tensor<1x2xf32>\n"
      "%0 = linalg.pack %x inner_dims_pos = [0] inner_tiles = [2] into %e : tensor<2xf32> -> tensor<1x2xf32>\n"
      "return %0 : tensor<1x2xf32>\n}";
  auto [ran, text] = runChecked(source, 1);
  EXPECT_FALSE(ran);
  EXPECT_NE(text.find("cannot be evaluated after the input: 'linalg.pack'"), std::string::npos) << text;
  NumericCheckOptions options;
  options.stopsAtUnknownOps = true;
  std::tie(ran, text) = runChecked(source, 1, options);
  EXPECT_TRUE(ran);
  EXPECT_NE(text.find("not evaluated after the input"), std::string::npos) << text;
}

TEST(NumericCheck, MissingEntryIsNamed) {
  NumericCheckOptions options;
  options.entry = "prefill";
  auto [ran, text] = runChecked(twice, 1, options);
  EXPECT_FALSE(ran);
  EXPECT_NE(text.find("there is no function 'prefill' to evaluate"), std::string::npos) << text;
}
