// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Model ops against values worked out by hand.

#include "test/verify/Evaluate.h"

using namespace heddle;

TEST(Interpreter, EmbeddingScalesRows) {
  Evaluation run(R"(
    func.func @main(%ids: tensor<3xi32>, %table: tensor<2x2xbf16>) -> tensor<3x2xf32> {
      %0 = heddle.embedding %ids, %table {scale = 2.0} : tensor<3xi32>, tensor<2x2xbf16> -> tensor<3x2xf32>
      return %0 : tensor<3x2xf32>
    })");
  EXPECT_EQ(run.reals({run.i32({3}, {1, 0, 1}), run.bf16({2, 2}, {1, 2, 3, 4})}), (Reals{6, 8, 2, 4, 6, 8}));
}

TEST(Interpreter, EmbeddingRefusesIdsOutsideTheTable) {
  Evaluation run(R"(
    func.func @main(%ids: tensor<1xi32>, %table: tensor<2x2xf32>) -> tensor<1x2xf32> {
      %0 = heddle.embedding %ids, %table : tensor<1xi32>, tensor<2x2xf32> -> tensor<1x2xf32>
      return %0 : tensor<1x2xf32>
    })");
  EXPECT_NE(run.error({run.i32({1}, {2}), run.f32({2, 2}, {1, 2, 3, 4})}).find("id 2 in a table of 2 rows"),
            std::string::npos);
}

TEST(Interpreter, LinearStacksWeightsAndBiases) {
  Evaluation run(R"(
    func.func @main(%x: tensor<2x2xf32>, %v: tensor<1x2xf32>, %w: tensor<2x2xf32>, %a: tensor<1xf32>, %b: tensor<2xf32>) -> tensor<2x3xf32> {
      %0 = heddle.linear %x, weights(%v, %w : tensor<1x2xf32>, tensor<2x2xf32>) biases(%a, %b : tensor<1xf32>, tensor<2xf32>)
        : tensor<2x2xf32> -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    })");
  // Rows (1, 2) and (3, -1); W = [[1, 1], [2, 0], [0, 3]]; b = (10, 20, 30).
  EXPECT_EQ(run.reals({run.f32({2, 2}, {1, 2, 3, -1}), run.f32({1, 2}, {1, 1}), run.f32({2, 2}, {2, 0, 0, 3}),
                       run.f32({1}, {10}), run.f32({2}, {20, 30})}),
            (Reals{13, 22, 36, 12, 26, 27}));
}

TEST(Interpreter, LinearAccumulatesInDouble) {
  Evaluation run(R"(
    func.func @main(%x: tensor<1x3xf32>, %w: tensor<1x3xf32>) -> tensor<1x1xf32> {
      %0 = heddle.linear %x, weights(%w : tensor<1x3xf32>) : tensor<1x3xf32> -> tensor<1x1xf32>
      return %0 : tensor<1x1xf32>
    })");
  // In f32 the 1 would be lost beside 2^30.
  EXPECT_EQ(run.reals({run.f32({1, 3}, {0x1p30, 1, -0x1p30}), run.f32({1, 3}, {1, 1, 1})}), (Reals{1}));
}

TEST(Interpreter, RmsNormDividesByTheRootMeanSquare) {
  Evaluation run(R"(
    func.func @main(%x: tensor<1x2xf32>, %w: tensor<2xf32>) -> tensor<1x2xf32> {
      %0 = heddle.rms_norm %x, %w {eps = 3.0, weight_offset = 1.0} : tensor<1x2xf32>, tensor<2xf32>
      return %0 : tensor<1x2xf32>
    })");
  // mean(1, 25) = 13, + 3 = 16, root 4.
  EXPECT_EQ(run.reals({run.f32({1, 2}, {1, 5}), run.f32({2}, {3, -5})}), (Reals{1, -5}));
}

TEST(Interpreter, NormsOfHeadsHaveWeightsOfTheirOwn) {
  // (batch 2, heads 2, sequence 1, width 2): the weight of head 1 is 10 times that of head 0.
  const char *source = R"(
    func.func @main(%x: tensor<2x2x1x2xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<2x2x1x2xf32>, tensor<2x2x1x2xf32>) {
      %0 = heddle.rms_norm %x, %w {eps = 3.0} : tensor<2x2x1x2xf32>, tensor<4xf32>
      %1 = heddle.layer_norm %x, %w, %b {eps = 12.0} : tensor<2x2x1x2xf32>, tensor<4xf32>, tensor<4xf32>
      return %0, %1 : tensor<2x2x1x2xf32>, tensor<2x2x1x2xf32>
    })";
  Evaluation run(source);
  llvm::SmallVector<RuntimeValue> arguments{run.f32({2, 2, 1, 2}, {1, 5, 1, 5, 5, 1, 5, 1}),
                                            run.f32({4}, {4, 8, 40, 80}), run.f32({4}, {1, 2, 3, 4})};
  // mean(1, 25) + 3 = 16; mean 3, variance 4, + 12 = 16.
  EXPECT_EQ(run.reals(arguments, 0), (Reals{1, 10, 10, 100, 5, 2, 50, 20}));
  EXPECT_EQ(run.reals(arguments, 1), (Reals{-1, 6, -17, 44, 3, -2, 23, -36}));
}

TEST(Interpreter, LayerNormHasABiasOrNone) {
  const char *source = R"(
    func.func @main(%x: tensor<1x2xf32>, %w: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<1x2xf32> {
      %0 = heddle.layer_norm %x, %w BIAS
      return %0 : tensor<1x2xf32>
    })";
  auto with = [&](const std::string &tail) {
    std::string text = source;
    return text.replace(text.find("BIAS"), 4, tail);
  };
  Evaluation biased(with(", %b {eps = 7.0} : tensor<1x2xf32>, tensor<2xf32>, tensor<2xf32>"));
  Evaluation unbiased(with("{eps = 7.0} : tensor<1x2xf32>, tensor<2xf32>"));
  // mean 4, variance 9, + 7 = 16, root 4: (-3, 3) / 4.
  auto x = biased.f32({1, 2}, {1, 7}), w = biased.f32({2}, {4, 8}), b = biased.f32({2}, {10, 20});
  EXPECT_EQ(biased.reals({x, w, b}), (Reals{7, 26}));
  x = unbiased.f32({1, 2}, {1, 7}), w = unbiased.f32({2}, {4, 8}), b = unbiased.f32({2}, {10, 20});
  EXPECT_EQ(unbiased.reals({x, w, b}), (Reals{-3, 6}));
}

//===- rope ---------------------------------------------------------------===//

static std::string ropeModule(const std::string &layout, const std::string &table) {
  return "#rope = #heddle.rope<" + layout +
         ", table = 0, attention_factor = 2.0, inverse_frequency = array<f32: 1.0, 0.5>>\n"
         "func.func @main(%x: tensor<1x1x2x5xf32>, %p: tensor<1x2xi32>, %t: tensor<3x4xf32>) -> tensor<1x1x2x5xf32> {\n"
         "  %0 = heddle.rope %x, %p" +
         table +
         " #rope : tensor<1x1x2x5xf32>, tensor<1x2xi32>\n"
         "  return %0 : tensor<1x1x2x5xf32>\n}";
}

TEST(Interpreter, RopeRotatesPairsAndLeavesTheRest) {
  double c1 = 2 * std::cos(2), s1 = 2 * std::sin(2), c2 = 2 * std::cos(1), s2 = 2 * std::sin(1);
  // Second token at position 2; pairs (a, b) of the first four values of a head of 5.
  auto expect = [&](double a1, double b1, double a2, double b2) {
    return std::array<double, 4>{a1 * c1 - b1 * s1, b1 * c1 + a1 * s1, a2 * c2 - b2 * s2, b2 * c2 + a2 * s2};
  };
  for (bool interleaved : {false, true}) {
    Evaluation run(ropeModule(interleaved ? "interleaved" : "half", ","));
    Reals y = run.reals({run.f32({1, 1, 2, 5}, {1, 2, 3, 4, 5, 1, 2, 3, 4, 5}), run.i32({1, 2}, {0, 2}),
                         run.f32({3, 4}, Reals(12, 0))});
    auto pairs = interleaved ? expect(1, 2, 3, 4) : expect(1, 3, 2, 4);
    Reals second = interleaved ? Reals{pairs[0], pairs[1], pairs[2], pairs[3], 5}
                               : Reals{pairs[0], pairs[2], pairs[1], pairs[3], 5};
    Reals all{2, 4, 6, 8, 5}; // position 0: only the factor
    all.insert(all.end(), second.begin(), second.end());
    expectNear(y, all, 1e-6);
  }
}

TEST(Interpreter, RopeReadsItsTable) {
  Evaluation run(ropeModule("half", " table(%t : tensor<3x4xf32>)"));
  // Row 2: cos (0, 1), sin (1, 0). A table holds the attention factor already.
  Reals y = run.reals({run.f32({1, 1, 2, 5}, {1, 2, 3, 4, 5, 1, 2, 3, 4, 5}), run.i32({1, 2}, {2, 2}),
                       run.f32({3, 4}, {9, 9, 9, 9, 9, 9, 9, 9, 0, 1, 1, 0})});
  EXPECT_EQ(y, (Reals{-3, 2, 1, 4, 5, -3, 2, 1, 4, 5}));
}

//===- glu, softcap, moe --------------------------------------------------===//

TEST(Interpreter, GluKnowsEveryActivation) {
  const double x = 0.75, sigmoid = 1 / (1 + std::exp(-x));
  const std::pair<const char *, double> cases[] = {
      {"silu", x * sigmoid},
      {"gelu", x * 0.7733726476231317}, // x Phi(x)
      {"gelu_tanh", 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))},
      {"relu", x},
      {"quick_gelu", x / (1 + std::exp(-1.702 * x))},
      {"tanh", std::tanh(x)},
      {"squared_relu", x * x},
  };
  for (auto [name, value] : cases) {
    Evaluation run("func.func @main(%g: tensor<2xf32>, %u: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {\n"
                   "  %0 = heddle.glu <" +
                   std::string(name) +
                   "> %g, %u : tensor<2xf32>\n"
                   "  %1 = heddle.glu <" +
                   std::string(name) +
                   "> %g : tensor<2xf32>\n"
                   "  return %0, %1 : tensor<2xf32>, tensor<2xf32>\n}");
    Reals gated = run.reals({run.f32({2}, {x, 0}), run.f32({2}, {4, 1})}, 0),
          plain = run.reals({run.f32({2}, {x, 0}), run.f32({2}, {4, 1})}, 1);
    expectNear(gated, {4 * value, 0}, 1e-6);
    expectNear(plain, {value, 0}, 1e-6);
  }
}

TEST(Interpreter, ReluIsZeroBelowZero) {
  Evaluation run("func.func @main(%g: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = heddle.glu <relu> %g : tensor<2xf32>\n"
                 "  return %0 : tensor<2xf32>\n}");
  EXPECT_EQ(run.reals({run.f32({2}, {-3, 3})}), (Reals{0, 3}));
}

TEST(Interpreter, SoftcapBounds) {
  Evaluation run(
      "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n  %0 = heddle.softcap %x {cap = 30.0} : tensor<3xf32>\n"
      "  return %0 : tensor<3xf32>\n}");
  expectNear(run.reals({run.f32({3}, {0, 15, 1e9})}), {0, 30 * std::tanh(0.5), 30}, 1e-5);
}

static std::string moeModule(int topK, bool normalize) {
  std::string expert = "tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>";
  return "func.func @main(%x: tensor<1x1xf32>, %r: tensor<3x1xf32>, %a: tensor<1x1xf32>, %b: tensor<1x1xf32>, %c: "
         "tensor<1x1xf32>, "
         "%one: tensor<1x1xf32>) -> tensor<1x1xf32> {\n"
         "  %0 = heddle.moe <relu> %x, %r gates(%one, %one, %one : " +
         expert + ") ups(%one, %one, %one : " + expert + ") downs(%a, %b, %c : " + expert +
         ") {top_k = " + std::to_string(topK) + " : i64, normalize = " + (normalize ? "true" : "false") +
         "} : tensor<1x1xf32>, tensor<3x1xf32> -> tensor<1x1xf32>\n"
         "  return %0 : tensor<1x1xf32>\n}";
}

TEST(Interpreter, MoeTiesGoToTheLowerIndex) {
  // Router logits (0, ln 2, ln 2): p = (1, 2, 2) / 5. With x = 1 expert e gives down_e.
  double ln2 = std::log(2.0);
  auto run = [&](int topK, bool normalize) {
    Evaluation evaluation(moeModule(topK, normalize));
    return evaluation.reals({evaluation.f32({1, 1}, {1}), evaluation.f32({3, 1}, {0, ln2, ln2}),
                             evaluation.f32({1, 1}, {10}), evaluation.f32({1, 1}, {20}), evaluation.f32({1, 1}, {40}),
                             evaluation.f32({1, 1}, {1})});
  };
  expectNear(run(1, false), {20 * 0.4}, 1e-5);
  expectNear(run(1, true), {20}, 1e-5);
  expectNear(run(2, true), {30}, 1e-5);
  expectNear(run(3, false), {10 * 0.2 + 20 * 0.4 + 40 * 0.4}, 1e-5);
}

TEST(Interpreter, MoeBiasesAndBounds) {
  // Router (0, 1) + (3, 0): expert 0. Gate 2 x + 1 = 3, bounded to 2; up -x - 4 = -5, bounded to -2, + 1. silu(2 g) / 2 = 2 / (1 + e^-4).
  Evaluation run(R"(
    func.func @main(%x: tensor<1x1xf32>, %r: tensor<2x1xf32>, %p: tensor<2xf32>, %g: tensor<2x1xf32>, %b: tensor<2xf32>, %d: tensor<1x1xf32>, %c: tensor<1xf32>)
        -> tensor<1x1xf32> {
      %0 = heddle.moe <silu> %x, %r router_bias(%p : tensor<2xf32>) gating <limit = 2.0, alpha = 2.0, offset = 1.0>
        gates(%g, %g : tensor<2x1xf32>, tensor<2x1xf32>) downs(%d, %d : tensor<1x1xf32>, tensor<1x1xf32>)
        gate_biases(%b, %b : tensor<2xf32>, tensor<2xf32>) down_biases(%c, %c : tensor<1xf32>, tensor<1xf32>)
        {top_k = 1 : i64, normalize = true} : tensor<1x1xf32>, tensor<2x1xf32> -> tensor<1x1xf32>
      return %0 : tensor<1x1xf32>
    })");
  double gated = 2 / (1 + std::exp(-4.0)) * (-2 + 1);
  expectNear(run.reals({run.f32({1, 1}, {1}), run.f32({2, 1}, {0, 1}), run.f32({2}, {3, 0}), run.f32({2, 1}, {2, -1}),
                        run.f32({2}, {1, -4}), run.f32({1, 1}, {10}), run.f32({1}, {0.5})}),
             {10 * gated + 0.5}, 1e-5);
}

TEST(Interpreter, MoeWithRoomForOneTokenOfASequence) {
  // Expert 0 gives 10 relu(2 x) to x > 0, expert 1 gives 20 relu(-2 x) to x < 0, with p = sigmoid(2 |x|).
  Evaluation run(R"(
    func.func @main(%x: tensor<2x3x1xf32>, %r: tensor<2x1xf32>, %g: tensor<1x1xf32>, %h: tensor<1x1xf32>, %d: tensor<1x1xf32>, %e: tensor<1x1xf32>)
        -> tensor<2x3x1xf32> {
      %0 = heddle.moe <relu> %x, %r routing <capacity = 1> gates(%g, %h : tensor<1x1xf32>, tensor<1x1xf32>)
        downs(%d, %e : tensor<1x1xf32>, tensor<1x1xf32>)
        {top_k = 1 : i64, normalize = false} : tensor<2x3x1xf32>, tensor<2x1xf32> -> tensor<2x3x1xf32>
      return %0 : tensor<2x3x1xf32>
    })");
  auto p = [](double x) { return 1 / (1 + std::exp(-2 * x)); };
  expectNear(run.reals({run.f32({2, 3, 1}, {1, 2, -3, 4, 5, 6}), run.f32({2, 1}, {1, -1}), run.f32({1, 1}, {2}),
                        run.f32({1, 1}, {-2}), run.f32({1, 1}, {10}), run.f32({1, 1}, {20})}),
             {20 * p(1), 0, 120 * p(3), 80 * p(4), 0, 0}, 1e-5);
}

TEST(Interpreter, MoeOfASparseMixer) {
  // Logits 10, 9, 1: 9 is near to 10, which is at most 20 % above it, and nothing is near to 9 once 10 is chosen.
  Evaluation run(R"(
    func.func @main(%x: tensor<1x1xf32>, %r: tensor<3x1xf32>, %g: tensor<1x1xf32>, %a: tensor<1x1xf32>, %b: tensor<1x1xf32>) -> tensor<1x1xf32> {
      %0 = heddle.moe <relu> %x, %r routing <jitter = 0.1> gates(%g, %g, %g : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>)
        downs(%a, %b, %b : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>)
        {top_k = 2 : i64, normalize = false} : tensor<1x1xf32>, tensor<3x1xf32> -> tensor<1x1xf32>
      return %0 : tensor<1x1xf32>
    })");
  expectNear(run.reals({run.f32({1, 1}, {1}), run.f32({3, 1}, {10, 9, 1}), run.f32({1, 1}, {1}), run.f32({1, 1}, {100}),
                        run.f32({1, 1}, {7})}),
             {100 / (1 + std::exp(-1.0)) + 7}, 1e-4);
}

TEST(Interpreter, MoeWhoseRouterReadsOtherRows) {
  // Logits (0, ln 3) of the second input, not of the first: p = (1, 3) / 4, times 5 and 7.
  Evaluation run(R"(
    func.func @main(%x: tensor<1x1xf32>, %h: tensor<1x1xf32>, %r: tensor<2x1xf32>, %s: tensor<2xf32>, %g: tensor<1x1xf32>, %a: tensor<1x1xf32>, %b: tensor<1x1xf32>)
        -> tensor<1x1xf32> {
      %0 = heddle.moe <relu> %x, %r router_input(%h : tensor<1x1xf32>) scales(%s : tensor<2xf32>) gates(%g, %g : tensor<1x1xf32>, tensor<1x1xf32>)
        downs(%a, %b : tensor<1x1xf32>, tensor<1x1xf32>) {top_k = 2 : i64, normalize = true} : tensor<1x1xf32>, tensor<2x1xf32> -> tensor<1x1xf32>
      return %0 : tensor<1x1xf32>
    })");
  expectNear(run.reals({run.f32({1, 1}, {2}), run.f32({1, 1}, {1}), run.f32({2, 1}, {0, std::log(3.0)}),
                        run.f32({2}, {5, 7}), run.f32({1, 1}, {1}), run.f32({1, 1}, {10}), run.f32({1, 1}, {100})}),
             {2 * (10 * 0.25 * 5 + 100 * 0.75 * 7)}, 1e-3);
}

//===- calls and errors ---------------------------------------------------===//

TEST(Interpreter, WeightsAreReadThroughTheCallback) {
  InterpreterOptions options;
  options.weight = [](WeightOp op) -> mlir::FailureOr<RuntimeValue> {
    Tensor tensor = Tensor::zeros(mlir::getElementTypeOrSelf(op.getType()), {2});
    tensor.reals = {double(op.getStorage().getOffset()), double(op.getName().size())};
    return makeValue(std::move(tensor));
  };
  Evaluation run(R"(
    func.func @main() -> tensor<2xf32> {
      %0 = heddle.weight "norm" <type = "f32", file = 0, offset = 64> : tensor<2xf32>
      return %0 : tensor<2xf32>
    })",
                 options);
  EXPECT_EQ(run.reals({}), (Reals{64, 4}));
}

TEST(Interpreter, UnknownOpsAreNamed) {
  Evaluation run("func.func @main(%x: memref<2xf32>) -> f32 {\n  %c = arith.constant 0 : index\n"
                 "  %0 = memref.load %x[%c] : memref<2xf32>\n  return %0 : f32\n}");
  EXPECT_NE(
      run.error({run.f32({2}, {1, 2})}).find("'memref.load' op is an op that the reference interpreter does not know"),
      std::string::npos);
  Evaluation packed(
      "func.func @main(%x: tensor<2xf32>) -> tensor<1x2xf32> {\n"
      "  %e = tensor.empty() : tensor<1x2xf32>\n"
      "  %0 = linalg.pack %x inner_dims_pos = [0] inner_tiles = [2] into %e : tensor<2xf32> -> tensor<1x2xf32>\n"
      "  return %0 : tensor<1x2xf32>\n}");
  EXPECT_NE(packed.error({packed.f32({2}, {1, 2})})
                .find("'linalg.pack' op is an op that the reference interpreter does not know"),
            std::string::npos);
}

TEST(Interpreter, RecursionEnds) {
  Evaluation run("func.func @main() -> f32 {\n  %0 = call @main() : () -> f32\n  return %0 : f32\n}");
  EXPECT_NE(run.error({}).find("more than 64 calls deep"), std::string::npos);
}
