// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernel ops against values worked out by hand.

#include "test/verify/Evaluate.h"

#include <cmath>

using namespace heddle;

// W[n][k] = n + 1 in column 0, 1 in column 33, 0 elsewhere.
static PackedWeights weights() {
  return {[](int64_t n, int64_t k) { return k == 0 ? n + 1.0 : k == 33 ? 1.0 : 0.0; }};
}

TEST(KernelOps, PackedMatmulAddsBiasAndDestination) {
  auto source = [](const std::string &flag) {
    return R"(func.func @main(%x: tensor<1x64xf32>, %w: tensor<8xi8>, %b: tensor<2xf32>, %o: tensor<1x2xf32>) -> tensor<1x2xf32> {
      %0 = heddle.packed_matmul ins(%x, %w bias %b : tensor<1x64xf32>, tensor<8xi8> bias tensor<2xf32>)
        outs(%o : tensor<1x2xf32>) {)" +
           flag + R"(n = 2 : i64, k = 64 : i64, format = "test"} -> tensor<1x2xf32>
      return %0 : tensor<1x2xf32>
    })";
  };
  Reals x(64, 0);
  x[0] = 3, x[33] = 5;
  for (bool accumulate : {false, true}) {
    Evaluation run(source(accumulate ? "accumulate, " : ""));
    double residual = accumulate ? 1 : 0;
    EXPECT_EQ(run.reals({run.f32({1, 64}, x), weights(), run.f32({2}, {100, 200}), run.f32({1, 2}, {1000, 2000})}),
              (Reals{108 + 1000 * residual, 211 + 2000 * residual}));
  }
}

TEST(KernelOps, PackedMatmulReadsCodesThroughScales) {
  Evaluation run(R"(
    func.func @main(%x: tensor<1x64xf32>, %w: tensor<8xi8>, %o: tensor<1x2xf32>) -> tensor<1x2xf32> {
      %c, %s, %m = heddle.quantize %x : tensor<1x64xf32> -> tensor<1x64xi8>, tensor<1x2xf32>, tensor<1x4xi32>
      %0 = heddle.packed_matmul ins(%c scales %s sums %m, %w : tensor<1x64xi8> scales tensor<1x2xf32> sums tensor<1x4xi32>, tensor<8xi8>)
        outs(%o : tensor<1x2xf32>) {n = 2 : i64, k = 64 : i64, format = "test"} -> tensor<1x2xf32>
      return %0 : tensor<1x2xf32>
    })");
  // Blocks whose greatest values are 127 and 254: scales 1 and 2.
  Reals x(64, 0);
  x[0] = 3, x[1] = 127, x[33] = 10, x[34] = 254;
  EXPECT_EQ(run.reals({run.f32({1, 64}, x), weights(), run.f32({1, 2}, {0, 0})}), (Reals{13, 16}));
}

// Two tokens, three experts, two each: token 0 goes to 0 and 1, token 1 to 1 and 2, in equal parts.
TEST(KernelOps, ExpertsComputeTheRowsThatChoseThem) {
  Evaluation run(R"(
    func.func @main(%l: tensor<2x3xf32>, %x: tensor<2x2xf32>, %w: tensor<8xi8>, %d: tensor<8xi8>, %e: tensor<2x2xi32>, %p: tensor<2x2xf32>,
                    %o: tensor<2x4xi32>, %h: tensor<2x2xf32>, %r: tensor<2x1xf32>)
        -> (tensor<2x2xi32>, tensor<2x4xi32>, tensor<2x2xf32>, tensor<2x1xf32>) {
      %t:5 = heddle.route_experts ins(%l : tensor<2x3xf32>)
        outs(%e, %p, %o, %e, %p : tensor<2x2xi32>, tensor<2x2xf32>, tensor<2x4xi32>, tensor<2x2xi32>, tensor<2x2xf32>)
        {num_experts = 3 : i64, top_k = 2 : i64, normalize = true}
        -> tensor<2x2xi32>, tensor<2x2xf32>, tensor<2x4xi32>, tensor<2x2xi32>, tensor<2x2xf32>
      %0 = heddle.expert_matmul activated <relu> ins(%x, %w : tensor<2x2xf32>, tensor<8xi8>)
        list(%t#2, %t#3, %t#4 : tensor<2x4xi32>, tensor<2x2xi32>, tensor<2x2xf32>) outs(%h : tensor<2x2xf32>)
        {num_experts = 3 : i64, top_k = 2 : i64, n = 1 : i64, k = 2 : i64, format = "test"} -> tensor<2x2xf32>
      %1 = heddle.expert_matmul ins(%0, %d : tensor<2x2xf32>, tensor<8xi8>)
        list(%t#2, %t#3, %t#4 : tensor<2x4xi32>, tensor<2x2xi32>, tensor<2x2xf32>) outs(%r : tensor<2x1xf32>)
        {accumulate, num_experts = 3 : i64, top_k = 2 : i64, n = 1 : i64, k = 1 : i64, format = "test"} -> tensor<2x1xf32>
      return %t#3, %t#2, %0, %1 : tensor<2x2xi32>, tensor<2x4xi32>, tensor<2x2xf32>, tensor<2x1xf32>
    })");
  // gate_e x = (2e + 1) x0, up_e x = (2e + 2) x0; down_e = e + 1.
  auto zeros = run.f32({2, 2}, Reals(4, 0));
  auto indices = run.i32({2, 2}, {0, 0, 0, 0});
  std::vector<RuntimeValue> arguments = {run.f32({2, 3}, {1, 1, -40, -40, 2, 2}),
                                         run.f32({2, 2}, {1, 0, 10, 0}),
                                         weights(),
                                         weights(),
                                         indices,
                                         zeros,
                                         run.i32({2, 4}, Integers(8, 0)),
                                         zeros,
                                         run.f32({2, 1}, {1000, 2000})};
  EXPECT_EQ(run.integers(arguments, 0), (Integers{0, 0, 1, 1}));
  Integers offsets = run.integers(arguments, 1);
  offsets.resize(4);
  EXPECT_EQ(offsets, (Integers{0, 1, 3, 4}));
  EXPECT_EQ(run.reals(arguments, 2), (Reals{2, 12, 1200, 3000}));
  EXPECT_EQ(run.reals(arguments, 3), (Reals{1000 + 1 + 12, 2000 + 1200 + 4500}));
}

TEST(KernelOps, LayoutsAreReadThroughTheCallback) {
  InterpreterOptions options;
  options.packed = [](mlir::Operation *, llvm::StringRef format, int64_t n, int64_t k,
                      TensorRef bytes) -> mlir::FailureOr<PackedWeights> {
    EXPECT_EQ(format, "bytes");
    return PackedWeights{[=](int64_t row, int64_t column) { return double(bytes->integers[row * k + column]); }};
  };
  const char *source = R"(
    func.func @main(%ids: tensor<3xi32>, %o: tensor<3x2xf32>) -> tensor<3x2xf32> {
      %w = arith.constant dense<[1, -2, 3, 4]> : tensor<4xi8>
      %0 = heddle.dequantize ins(%ids, %w : tensor<3xi32>, tensor<4xi8>) outs(%o : tensor<3x2xf32>)
        {n = 2 : i64, k = 2 : i64, format = "bytes", scale = 0.5} -> tensor<3x2xf32>
      return %0 : tensor<3x2xf32>
    })";
  Evaluation run(source, options);
  auto destination = run.f32({3, 2}, Reals(6, 0));
  EXPECT_EQ(run.reals({run.i32({3}, {1, 0, 1}), destination}), (Reals{1.5, 2, 0.5, -1, 1.5, 2}));
  EXPECT_NE(run.error({run.i32({3}, {1, 0, -1}), destination}).find("id -1 in a table of 2 rows"), std::string::npos);
  Evaluation unreadable(source);
  EXPECT_NE(
      unreadable.error({unreadable.i32({3}, {1, 0, 1}), unreadable.f32({3, 2}, Reals(6, 0))}).find("packed as 'bytes'"),
      std::string::npos);
}

TEST(KernelOps, KernelCallRunsItsCallee) {
  Evaluation run(R"(
    func.func private @scaled_sum(%a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
      %0 = arith.addf %a, %b : tensor<?xf32>
      %1 = arith.mulf %0, %0 : tensor<?xf32>
      return %0, %1 : tensor<?xf32>, tensor<?xf32>
    }
    func.func @main(%a: tensor<?xf32>, %o: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
      %0:2 = heddle.kernel_call @scaled_sum ins(%a, %a : tensor<?xf32>, tensor<?xf32>) outs(%o, %o : tensor<?xf32>, tensor<?xf32>)
        -> tensor<?xf32>, tensor<?xf32>
      return %0#0, %0#1 : tensor<?xf32>, tensor<?xf32>
    })");
  EXPECT_EQ(run.reals({run.f32({2}, {1, 3}), run.f32({2}, {0, 0})}, 0), (Reals{2, 6}));
  EXPECT_EQ(run.reals({run.f32({2}, {1, 3}), run.f32({2}, {0, 0})}, 1), (Reals{4, 36}));
}

TEST(KernelOps, QuantizeRoundsTiesToEven) {
  Evaluation run(R"(
    func.func @main(%x: tensor<2x32xf32>) -> (tensor<2x32xi8>, tensor<2x1xf32>, tensor<2x2xi32>) {
      %c, %s, %m = heddle.quantize %x : tensor<2x32xf32> -> tensor<2x32xi8>, tensor<2x1xf32>, tensor<2x2xi32>
      return %c, %s, %m : tensor<2x32xi8>, tensor<2x1xf32>, tensor<2x2xi32>
    })");
  // The first row has scale 2, the second is zero.
  Reals x(64, 0);
  x[0] = -254, x[1] = 5, x[2] = 7, x[3] = -5, x[4] = 2.9, x[31] = 254;
  auto input = run.f32({2, 32}, x);
  Integers codes(64, 0);
  codes[0] = -127, codes[1] = 2, codes[2] = 4, codes[3] = -2, codes[4] = 1, codes[31] = 127;
  EXPECT_EQ(run.integers({input}, 0), codes);
  EXPECT_EQ(run.reals({input}, 1), (Reals{2, 0}));
  EXPECT_EQ(run.integers({input}, 2), (Integers{-122, 127, 0, 0}));
}

// Logits of ln 2 and 0: weights 2/3 and 1/3. The query's heads lie inside its rows, the result's rows inside its heads' batch.
TEST(KernelOps, FlashAttentionReadsAxesInTheirOrder) {
  Evaluation run(R"(
    func.func @main(%q: tensor<1x1x2x1xf32>, %k: tensor<1x1x2x1xf32>, %v: tensor<1x2x1x1xf32>, %b: tensor<1x2x1x1xf32>,
                    %o: tensor<2x1x1x1xf32>) -> tensor<2x1x1x1xf32> {
      %0 = heddle.flash_attention <full> ins(%q, %k, %v bias %b
          : tensor<1x1x2x1xf32>, tensor<1x1x2x1xf32>, tensor<1x2x1x1xf32> bias tensor<1x2x1x1xf32>) outs(%o : tensor<2x1x1x1xf32>)
        {scale = 0.5, query_axes = array<i64: 0, 2, 1, 3>, value_axes = array<i64: 0, 2, 1, 3>, out_axes = array<i64: 1, 0, 2, 3>}
        -> tensor<2x1x1x1xf32>
      return %0 : tensor<2x1x1x1xf32>
    })");
  double ln2 = std::log(2.0);
  Reals out = run.reals({run.f32({1, 1, 2, 1}, {2, 0}), run.f32({1, 1, 2, 1}, {ln2, 0}), run.f32({1, 2, 1, 1}, {3, 9}),
                         run.f32({1, 2, 1, 1}, {7, -7}), run.f32({2, 1, 1, 1}, {0, 0})});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_NEAR(out[0], 5, 1e-6);
  EXPECT_NEAR(out[1], 6, 1e-6);
}

TEST(KernelOps, FlashAttentionOfSizesThatDoNotFit) {
  Evaluation run(R"(
    func.func @main(%q: tensor<1x1x2x1xf32>, %k: tensor<1x1x?x1xf32>, %v: tensor<1x1x?x1xf32>, %o: tensor<1x1x2x1xf32>) -> tensor<1x1x2x1xf32> {
      %0 = heddle.flash_attention <full> ins(%q, %k, %v : tensor<1x1x2x1xf32>, tensor<1x1x?x1xf32>, tensor<1x1x?x1xf32>)
        outs(%o : tensor<1x1x2x1xf32>) {scale = 1.0} -> tensor<1x1x2x1xf32>
      return %0 : tensor<1x1x2x1xf32>
    })");
  EXPECT_NE(run.error({run.f32({1, 1, 2, 1}, {0, 0}), run.f32({1, 1, 2, 1}, {0, 0}), run.f32({1, 1, 1, 1}, {0}),
                       run.f32({1, 1, 2, 1}, {0, 0})})
                .find("do not fit together"),
            std::string::npos);
}
