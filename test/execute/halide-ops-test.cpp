// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scalar functions, views and upstream ops emitted through Halide, against plain f64 loops.

#include "test/execute/HalideKernel.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace heddle::test;

namespace {

// A scalar function, its reference, the range of its argument and its error, relative and absolute.
struct Function {
  const char *op;
  double (*reference)(double);
  double low, high, relative, absolute;
};

const Function functions[] = {
    {"math.exp", [](double x) { return std::exp(x); }, -100, 88, 2e-7, 1e-45},
    {"math.tanh", [](double x) { return std::tanh(x); }, -12, 12, 3e-7, 0},
    {"math.erf", [](double x) { return std::erf(x); }, -5, 5, 3e-7, 0},
    {"math.log", [](double x) { return std::log(x); }, 1e-38, 50, 2e-7, 1e-7},
    {"math.log1p", [](double x) { return std::log1p(x); }, -0.999, 50, 4e-7, 0},
    {"math.log1p", [](double x) { return std::log1p(x); }, -1e-6, 1e-6, 4e-7, 0},
    {"math.sin", [](double x) { return std::sin(x); }, -40000, 40000, 2e-7, 1e-9},
    {"math.cos", [](double x) { return std::cos(x); }, -40000, 40000, 2e-7, 1e-9},
    {"math.sqrt", [](double x) { return std::sqrt(x); }, 0, 1000, 6e-8, 0},
    {"math.rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.001, 1000, 1.2e-7, 0},
    {"math.absf", [](double x) { return std::abs(x); }, -10, 10, 0, 0},
    {"arith.negf", [](double x) { return -x; }, -10, 10, 0, 0},
};

std::string unary(const std::string &op) {
  return "func.func private @" + op.substr(op.find('.') + 1) +
         "(%x: tensor<?x301xf32>) -> tensor<?x301xf32> {"
         "  %y = " +
         op + " %x : tensor<?x301xf32> return %y : tensor<?x301xf32> }";
}

TEST(HalideOps, ScalarFunctions) {
  for (const Function &f : functions) {
    SCOPED_TRACE(f.op);
    Tensor x = random({-1, 301}, 1);
    int n = maxRows * 301;
    for (int i = 0; i < n; ++i)
      x.data<float>()[i] = float(f.low + (f.high - f.low) * i / (n - 1)) * (i % 5 ? 1.0f : 0.01f);
    checkKernel(unary(f.op), {x}, {Tensor(f32, {-1, 301})}, [&](int, std::vector<Tensor> &out) {
      for (int i = 0; i < n; ++i)
        expectClose(out[0].data<float>()[i], f.reference(x.data<float>()[i]), f.relative, f.absolute, i / 301, i % 301);
    });
  }
}

// Infinities, zeros and what is not a number.
// To nearest, ties to even; what bf16 products read.
TEST(HalideOps, RoundsToBf16) {
  const std::pair<uint32_t, uint16_t> cases[] = {
      {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0xbf80ffff, 0xbf81},
      {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x80000000, 0x8000}, {0x00018000, 0x0002}};
  const uint32_t nan = 0x7fffffff;
  Tensor x = random({-1, 301}, 1);
  for (int i = 0; i < maxRows * 301; ++i)
    std::memcpy(&x.data<float>()[i], i % 11 == 10 ? &nan : &cases[i % 11].first, 4);
  std::string kernel =
      "func.func private @round(%x: tensor<?x301xf32>) -> tensor<?x301xbf16> {"
      "  %y = arith.truncf %x : tensor<?x301xf32> to tensor<?x301xbf16> return %y : tensor<?x301xbf16> }";
  checkKernel(kernel, {x}, {Tensor(bf16, {-1, 301})}, [&](int, std::vector<Tensor> &out) {
    for (int i = 0; i < maxRows * 301; ++i) {
      uint16_t bits = out[0].data<uint16_t>()[i];
      if (i % 11 == 10) // a NaN whose payload a rounding would carry into the sign
        ASSERT_TRUE((bits & 0x7f80) == 0x7f80 && (bits & 0x7f)) << bits;
      else
        ASSERT_EQ(bits, cases[i % 11].second) << i;
    }
  });
}

TEST(HalideOps, SpecialValues) {
  float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float specials[] = {infinity, -infinity, nan, 0.0f, -0.0f, 1e-40f, 104.0f, -120.0f, 3e38f};
  for (const Function &f : functions) {
    std::string op = f.op;
    if (op == "math.sin" || op == "math.cos")
      continue; // bounded arguments only
    SCOPED_TRACE(op);
    Tensor x = random({-1, 301}, 1);
    for (int i = 0; i < maxRows * 301; ++i)
      x.data<float>()[i] = specials[i % 9];
    checkKernel(unary(op), {x}, {Tensor(f32, {-1, 301})}, [&](int, std::vector<Tensor> &out) {
      for (int i = 0; i < 9; ++i) {
        float expected = float(f.reference(specials[i])), actual = out[0].data<float>()[i];
        if (std::isnan(expected))
          ASSERT_TRUE(std::isnan(actual)) << specials[i] << ": " << actual;
        else if (std::isinf(expected))
          ASSERT_EQ(actual, expected) << specials[i];
        else
          expectClose(actual, expected, 3e-7, 2e-45, 0, i);
      }
    });
  }
}

TEST(HalideOps, Power) {
  Tensor x = random({-1, 64}, 2, 0, 2), y = random({-1, 64}, 3, 0, 2);
  for (int i = 0; i < maxRows * 64; ++i) {
    if (i / 64 % 7 == 3) // keep the result within f32
      x.data<float>()[i] = 1.5f, y.data<float>()[i] *= 0.01f;
    if (i % 3 == 0)
      y.data<float>()[i] = float(i % 8 - 4);
  }
  checkKernel(R"(func.func private @pow(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>) -> tensor<?x64xf32> {
    %z = math.powf %x, %y : tensor<?x64xf32> return %z : tensor<?x64xf32> })",
              {x, y}, {Tensor(f32, {-1, 64})}, [&](int, std::vector<Tensor> &out) {
                for (int i = 0; i < maxRows * 64; ++i) {
                  double expected = std::pow(double(x.data<float>()[i]), double(y.data<float>()[i]));
                  float actual = out[0].data<float>()[i];
                  ASSERT_EQ(std::isnan(expected), std::isnan(actual));
                  if (!std::isnan(expected) && std::abs(expected) < 3e38)
                    expectClose(actual, expected, 1e-7, 1e-44, i / 64, i % 64);
                }
              });
}

TEST(HalideOps, LayerNormWithBias) {
  Tensor x = random({-1, 100}, 4), weight = toBf16(random({100}, 5)), bias = random({100}, 6);
  for (int i = 0; i < maxRows * 100; ++i)
    x.data<float>()[i] += 10;
  checkKernel(
      R"(func.func private @layer_norm(%x: tensor<?x100xf32>, %w: tensor<100xbf16>, %b: tensor<100xf32>)
      -> tensor<?x100xf32> {
    %n = heddle.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : tensor<?x100xf32>, tensor<100xbf16>, tensor<100xf32>
    return %n : tensor<?x100xf32> })",
      {x, weight, bias}, {Tensor(f32, {-1, 100})}, [&](int count, std::vector<Tensor> &out) {
        for (int r = 0; r < count; ++r) {
          double mean = 0, variance = 0;
          for (int c = 0; c < 100; ++c)
            mean += x.at<float>(r, c) / 100.0;
          for (int c = 0; c < 100; ++c)
            variance += (x.at<float>(r, c) - mean) * (x.at<float>(r, c) - mean) / 100;
          for (int c = 0; c < 100; ++c) {
            double normal =
                (x.at<float>(r, c) - mean) / std::sqrt(variance + 1e-5) * fromBf16(weight.data<uint16_t>()[c]);
            expectClose(out[0].at<float>(r, c), normal + bias.data<float>()[c], 1e-6, 1e-5, r, c);
          }
        }
      });
}

// Gemma 2: x + rms_norm(y), then a bound on the values.
TEST(HalideOps, PostNormAndSoftcap) {
  Tensor x = random({-1, 144}, 7), y = random({-1, 144}, 8), weight = random({144}, 9);
  checkKernel(
      R"(func.func private @post_norm(%x: tensor<?x144xf32>, %y: tensor<?x144xf32>, %w: tensor<144xf32>)
      -> tensor<?x144xf32> {
    %n = heddle.rms_norm %y, %w {eps = 1.0e-6 : f64} : tensor<?x144xf32>, tensor<144xf32>
    %s = arith.addf %x, %n : tensor<?x144xf32>
    %c = heddle.softcap %s {cap = 30.0 : f64} : tensor<?x144xf32>
    return %c : tensor<?x144xf32> })",
      {x, y, weight}, {Tensor(f32, {-1, 144})}, [&](int count, std::vector<Tensor> &out) {
        for (int r = 0; r < count; ++r) {
          double sum = 0;
          for (int c = 0; c < 144; ++c)
            sum += double(y.at<float>(r, c)) * y.at<float>(r, c);
          for (int c = 0; c < 144; ++c) {
            double value =
                x.at<float>(r, c) + y.at<float>(r, c) / std::sqrt(sum / 144 + 1e-6) * weight.data<float>()[c];
            expectClose(out[0].at<float>(r, c), 30 * std::tanh(value / 30), 5e-7, 1e-6, r, c);
          }
        }
      });
}

// A kept row of 24 KiB is still on the stack, with several results too.
TEST(HalideOps, WideRows) {
  Tensor x = random({-1, 6144}, 17), y = random({-1, 6144}, 18);
  checkKernel(R"(func.func private @wide(%x: tensor<?x6144xf32>, %y: tensor<?x6144xf32>)
      -> (tensor<?x6144xf32>, tensor<?x6144xf32>) {
    %s = arith.addf %x, %y : tensor<?x6144xf32>
    %q = arith.mulf %s, %s : tensor<?x6144xf32>
    return %s, %q : tensor<?x6144xf32>, tensor<?x6144xf32> })",
              {x, y}, {Tensor(f32, {-1, 6144}), Tensor(f32, {-1, 6144})}, [&](int count, std::vector<Tensor> &out) {
                for (int i = 0; i < count * 6144; ++i) {
                  float sum = x.data<float>()[i] + y.data<float>()[i];
                  ASSERT_EQ(out[0].data<float>()[i], sum);
                  ASSERT_EQ(out[1].data<float>()[i], sum * sum);
                }
              });
}

// Qwen 3: each head is normalised, then rotated.
TEST(HalideOps, HeadNormThenRope) {
  Tensor x = random({-1, 96}, 10), weight = random({32}, 11), positions = integers({-1}, 20),
         table = random({20, 32}, 12);
  checkKernel(
      R"(func.func private @head_norm_rope(%x: tensor<?x96xf32>, %w: tensor<32xf32>, %p: tensor<?xi32>,
      %t: tensor<?x32xf32>) -> tensor<?x96xf32> {
    %zero = arith.constant 0 : index
    %n = tensor.dim %x, %zero : tensor<?x96xf32>
    %e = tensor.expand_shape %x [[0, 1], [2, 3]] output_shape [1, %n, 3, 32]
      : tensor<?x96xf32> into tensor<1x?x3x32xf32>
    %i = tensor.empty(%n) : tensor<1x3x?x32xf32>
    %h = linalg.transpose ins(%e : tensor<1x?x3x32xf32>) outs(%i : tensor<1x3x?x32xf32>) permutation = [0, 2, 1, 3]
    %m = heddle.rms_norm %h, %w {eps = 1.0e-6 : f64} : tensor<1x3x?x32xf32>, tensor<32xf32>
    %b = tensor.expand_shape %p [[0, 1]] output_shape [1, %n] : tensor<?xi32> into tensor<1x?xi32>
    %r = heddle.rope %m, %b table(%t : tensor<?x32xf32>) <half, table = 0, attention_factor = 1.0,
      inverse_frequency = array<f32:
      1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.09, 0.08, 0.07, 0.06, 0.05, 0.04>>
      : tensor<1x3x?x32xf32>, tensor<1x?xi32>
    %j = tensor.empty(%n) : tensor<1x?x3x32xf32>
    %u = linalg.transpose ins(%r : tensor<1x3x?x32xf32>) outs(%j : tensor<1x?x3x32xf32>) permutation = [0, 2, 1, 3]
    %c = tensor.collapse_shape %u [[0, 1], [2, 3]] : tensor<1x?x3x32xf32> into tensor<?x96xf32>
    return %c : tensor<?x96xf32> })",
      {x, weight, positions, table}, {Tensor(f32, {-1, 96})}, [&](int count, std::vector<Tensor> &out) {
        for (int r = 0; r < count; ++r)
          for (int h = 0; h < 3; ++h) {
            const float *in = &x.at<float>(r, 32 * h);
            double sum = 0, normal[32];
            for (int c = 0; c < 32; ++c)
              sum += double(in[c]) * in[c];
            for (int c = 0; c < 32; ++c)
              normal[c] = in[c] / std::sqrt(sum / 32 + 1e-6) * weight.data<float>()[c];
            for (int c = 0; c < 32; ++c) {
              const float *entry = &table.at<float>(positions.data<int32_t>()[r], 0);
              double a = normal[c] * entry[c % 16], b = normal[(c + 16) % 32] * entry[16 + c % 16];
              expectClose(out[0].at<float>(r, 32 * h + c), c < 16 ? a - b : a + b, 0,
                          6e-7 * (std::abs(a) + std::abs(b)), r, c);
            }
          }
      });
}

// result = x, y where the value is above 0.5, halved; 16-bit tensors in and out.
TEST(HalideOps, ConcatCompareSelect) {
  Tensor x = random({-1, 24}, 13), y(f16, {-1, 40});
  y.allocate(maxRows);
  for (int i = 0; i < maxRows * 40; ++i)
    y.data<uint16_t>()[i] = uint16_t(0x3800 + i % 64); // 0.5 + i % 64 / 2048
  checkKernel(R"(func.func private @concat(%x: tensor<?x24xf32>, %h: tensor<?x40xf16>) -> tensor<?x64xf32> {
    %zero = arith.constant 0 : index
    %n = tensor.dim %x, %zero : tensor<?x24xf32>
    %value = arith.constant 0.5 : f32
    %y = arith.extf %h : tensor<?x40xf16> to tensor<?x40xf32>
    %c = tensor.concat dim(1) %x, %y : (tensor<?x24xf32>, tensor<?x40xf32>) -> tensor<?x64xf32>
    %empty = tensor.empty(%n) : tensor<?x64xf32>
    %half = linalg.fill ins(%value : f32) outs(%empty : tensor<?x64xf32>) -> tensor<?x64xf32>
    %m = arith.cmpf ogt, %c, %half : tensor<?x64xf32>
    %d = arith.mulf %c, %half : tensor<?x64xf32>
    %s = arith.select %m, %d, %c : tensor<?x64xi1>, tensor<?x64xf32>
    return %s : tensor<?x64xf32> })",
              {x, y}, {Tensor(f32, {-1, 64})}, [&](int count, std::vector<Tensor> &out) {
                for (int r = 0; r < count; ++r)
                  for (int c = 0; c < 64; ++c) {
                    float value = c < 24 ? x.at<float>(r, c) : 0.5f + float((r * 40 + c - 24) % 64) / 2048;
                    ASSERT_EQ(out[0].at<float>(r, c), value > 0.5f ? 0.5f * value : value) << r << " " << c;
                  }
              });
}

// softmax(x) = exp(x - max) / sum, in upstream ops.
TEST(HalideOps, SoftmaxOfGenerics) {
  Tensor x = random({-1, 75}, 15);
  checkKernel(R"(#row = affine_map<(r, c) -> (r)>
    #all = affine_map<(r, c) -> (r, c)>
    func.func private @softmax(%x: tensor<?x75xf32>) -> tensor<?x75xf32> {
    %zero = arith.constant 0 : index
    %n = tensor.dim %x, %zero : tensor<?x75xf32>
    %low = arith.constant 0xFF800000 : f32
    %none = arith.constant 0.0 : f32
    %rows = tensor.empty(%n) : tensor<?xf32>
    %init = linalg.fill ins(%low : f32) outs(%rows : tensor<?xf32>) -> tensor<?xf32>
    %max = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<?x75xf32>) outs(%init : tensor<?xf32>) {
      ^bb0(%a: f32, %m: f32):
        %b = arith.maximumf %a, %m : f32
        linalg.yield %b : f32 } -> tensor<?xf32>
    %whole = tensor.empty(%n) : tensor<?x75xf32>
    %e = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
        ins(%x, %max : tensor<?x75xf32>, tensor<?xf32>) outs(%whole : tensor<?x75xf32>) {
      ^bb0(%a: f32, %m: f32, %o: f32):
        %d = arith.subf %a, %m : f32
        %b = math.exp %d : f32
        linalg.yield %b : f32 } -> tensor<?x75xf32>
    %zeros = linalg.fill ins(%none : f32) outs(%rows : tensor<?xf32>) -> tensor<?xf32>
    %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
        ins(%e : tensor<?x75xf32>) outs(%zeros : tensor<?xf32>) {
      ^bb0(%a: f32, %m: f32):
        %b = arith.addf %a, %m : f32
        linalg.yield %b : f32 } -> tensor<?xf32>
    %s = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
        ins(%e, %sum : tensor<?x75xf32>, tensor<?xf32>) outs(%whole : tensor<?x75xf32>) {
      ^bb0(%a: f32, %m: f32, %o: f32):
        %b = arith.divf %a, %m : f32
        linalg.yield %b : f32 } -> tensor<?x75xf32>
    return %s : tensor<?x75xf32> })",
              {x}, {Tensor(f32, {-1, 75})}, [&](int count, std::vector<Tensor> &out) {
                for (int r = 0; r < count; ++r) {
                  double maximum = -INFINITY, sum = 0;
                  for (int c = 0; c < 75; ++c)
                    maximum = std::max<double>(maximum, x.at<float>(r, c));
                  for (int c = 0; c < 75; ++c)
                    sum += std::exp(x.at<float>(r, c) - maximum);
                  for (int c = 0; c < 75; ++c)
                    expectClose(out[0].at<float>(r, c), std::exp(x.at<float>(r, c) - maximum) / sum, 1e-6, 1e-44, r, c);
                }
              });
}

// A reduction over two dimensions at once, one of them not the innermost: mean of squares over windows of 4 x 3.
TEST(HalideOps, ReductionOverSeveralDimensions) {
  Tensor x = random({-1, 96}, 16);
  checkKernel(R"(func.func private @windows(%x: tensor<?x96xf32>) -> tensor<?x8xf32> {
    %zero = arith.constant 0 : index
    %n = tensor.dim %x, %zero : tensor<?x96xf32>
    %none = arith.constant 1.0 : f32
    %e = tensor.expand_shape %x [[0], [1, 2, 3]] output_shape [%n, 4, 8, 3] : tensor<?x96xf32> into tensor<?x4x8x3xf32>
    %empty = tensor.empty(%n) : tensor<?x8xf32>
    %init = linalg.fill ins(%none : f32) outs(%empty : tensor<?x8xf32>) -> tensor<?x8xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(r, c, a, b) -> (r, a, c, b)>, affine_map<(r, c, a, b) -> (r, c)>],
        iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
        ins(%e : tensor<?x4x8x3xf32>) outs(%init : tensor<?x8xf32>) {
      ^bb0(%v: f32, %m: f32):
        %q = arith.mulf %v, %v : f32
        %b = arith.addf %m, %q : f32
        linalg.yield %b : f32 } -> tensor<?x8xf32>
    return %s : tensor<?x8xf32> })",
              {x}, {Tensor(f32, {-1, 8})}, [&](int count, std::vector<Tensor> &out) {
                for (int r = 0; r < count; ++r)
                  for (int c = 0; c < 8; ++c) {
                    double sum = 1;
                    for (int a = 0; a < 4; ++a)
                      for (int b = 0; b < 3; ++b)
                        sum += std::pow(double(x.at<float>(r, 24 * a + 3 * c + b)), 2);
                    expectClose(out[0].at<float>(r, c), sum, 1e-6, 0, r, c);
                  }
              });
}

} // namespace
