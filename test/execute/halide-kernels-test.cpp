// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels emitted through Halide against plain f64 loops, on this machine and on the oldest x86-64 that we support.

#include "test/execute/HalideKernel.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace heddle::test;

namespace {

std::vector<double> rmsNorm(Tensor &x, int row, int width, const std::function<double(int)> &weight, double eps) {
  double sum = 0;
  for (int c = 0; c < width; ++c)
    sum += double(x.at<float>(row, c)) * x.at<float>(row, c);
  std::vector<double> result(width);
  for (int c = 0; c < width; ++c)
    result[c] = x.at<float>(row, c) / std::sqrt(sum / width + eps) * weight(c);
  return result;
}

TEST(HalideKernels, RmsNorm) {
  for (int width : {576, 96, 50, 7}) {
    Tensor x = random({-1, width}, 1), weight = random({width}, 2);
    checkKernel(
        llvm::formatv("func.func private @rms_norm(%x: tensor<?x{0}xf32>, %w: tensor<{0}xf32>) -> tensor<?x{0}xf32> {{"
                      "  %n = heddle.rms_norm %x, %w {{eps = 1.0e-5 : f64} : tensor<?x{0}xf32>, tensor<{0}xf32>"
                      "  return %n : tensor<?x{0}xf32> }",
                      width)
            .str(),
        {x, weight}, {Tensor(f32, {-1, width})}, [&](int count, std::vector<Tensor> &out) {
          for (int r = 0; r < count; ++r) {
            auto expected = rmsNorm(x, r, width, [&](int c) { return weight.data<float>()[c]; }, 1e-5);
            for (int c = 0; c < width; ++c)
              expectClose(out[0].at<float>(r, c), expected[c], 4e-7, 1e-12, r, c);
          }
        });
  }
}

TEST(HalideKernels, AddOfWindows) {
  // Columns 0 … 575 of buffers of 700 columns.
  Tensor x = random({-1, 576}, 3, 700), y = random({-1, 576}, 4, 600);
  checkKernel("func.func private @add(%x: tensor<?x576xf32>, %y: tensor<?x576xf32>) -> tensor<?x576xf32> {"
              "  %s = arith.addf %x, %y : tensor<?x576xf32> return %s : tensor<?x576xf32> }",
              {x, y}, {Tensor(f32, {-1, 576}, 640)}, [&](int count, std::vector<Tensor> &out) {
                for (int r = 0; r < count; ++r)
                  for (int c = 0; c < 576; ++c)
                    ASSERT_EQ(out[0].at<float>(r, c), x.at<float>(r, c) + y.at<float>(r, c));
              });
}

// Against the definition of quantize, from the scales that the kernel found; `x` is known to `accuracy`.
void checkQuantized(int count, int width, std::vector<Tensor> &out, size_t first,
                    const std::function<std::vector<double>(int)> &x, double accuracy) {
  Tensor &codes = out[first], &scales = out[first + 1], &sums = out[first + 2];
  for (int r = 0; r < count; ++r) {
    std::vector<double> row = x(r);
    for (int b = 0; b < width / 32; ++b) {
      double maximum = 0;
      for (int c = 32 * b; c < 32 * b + 32; ++c)
        maximum = std::max(maximum, std::abs(row[c]));
      expectClose(scales.at<float>(r, b), maximum / 127, accuracy, 0, r, b);
      for (int c = 32 * b; c < 32 * b + 32; ++c) {
        double ratio = maximum == 0 ? 0 : row[c] / scales.at<float>(r, b);
        ASSERT_LE(std::abs(codes.at<int8_t>(r, c) - ratio), 0.5 + 300 * accuracy) << "row " << r << ", column " << c;
      }
    }
    for (int s = 0; s < width / 16; ++s) {
      int sum = 0;
      for (int c = 16 * s; c < 16 * s + 16; ++c)
        sum += codes.at<int8_t>(r, c);
      ASSERT_EQ(sums.at<int32_t>(r, s), sum);
    }
  }
}

TEST(HalideKernels, ResidualRmsNormQuantize) {
  Tensor x = random({-1, 576}, 5), y = random({-1, 576}, 6), weight = toBf16(random({576}, 7));
  // A row of zeros has scales and codes 0.
  for (int c = 0; c < 576; ++c)
    x.at<float>(4, c) = y.at<float>(4, c) = 0;
  checkKernel(
      R"(func.func private @residual_norm_quantize(%x: tensor<?x576xf32>, %y: tensor<?x576xf32>, %w: tensor<576xbf16>)
      -> (tensor<?x576xf32>, tensor<?x576xi8>, tensor<?x18xf32>, tensor<?x36xi32>) {
    %h = arith.addf %x, %y : tensor<?x576xf32>
    %n = heddle.rms_norm %h, %w {eps = 1.0e-5 : f64, weight_offset = 1.0 : f64} : tensor<?x576xf32>, tensor<576xbf16>
    %c, %s, %q = heddle.quantize %n : tensor<?x576xf32> -> tensor<?x576xi8>, tensor<?x18xf32>, tensor<?x36xi32>
    return %h, %c, %s, %q : tensor<?x576xf32>, tensor<?x576xi8>, tensor<?x18xf32>, tensor<?x36xi32>
  })",
      {x, y, weight}, {Tensor(f32, {-1, 576}), Tensor(i8, {-1, 576}), Tensor(f32, {-1, 18}), Tensor(i32, {-1, 36})},
      [&](int count, std::vector<Tensor> &out) {
        for (int r = 0; r < count; ++r)
          for (int c = 0; c < 576; ++c)
            ASSERT_EQ(out[0].at<float>(r, c), x.at<float>(r, c) + y.at<float>(r, c));
        checkQuantized(
            count, 576, out, 1,
            [&](int r) {
              return rmsNorm(out[0], r, 576, [&](int c) { return 1 + fromBf16(weight.data<uint16_t>()[c]); }, 1e-5);
            },
            4e-7);
      });
}

TEST(HalideKernels, Quantize) {
  Tensor x = random({-1, 96}, 8);
  for (int c = 0; c < 96; ++c) {
    x.at<float>(1, c) = float(c % 64 - 32) * 0.5f;  // ties
    x.at<float>(2, c) = std::ldexp(float(c), -149); // subnormal
  }
  checkKernel(
      R"(func.func private @quantize(%x: tensor<?x96xf32>) -> (tensor<?x96xi8>, tensor<?x3xf32>, tensor<?x6xi32>) {
    %c, %s, %q = heddle.quantize %x : tensor<?x96xf32> -> tensor<?x96xi8>, tensor<?x3xf32>, tensor<?x6xi32>
    return %c, %s, %q : tensor<?x96xi8>, tensor<?x3xf32>, tensor<?x6xi32>
  })",
      {x}, {Tensor(i8, {-1, 96}), Tensor(f32, {-1, 3}), Tensor(i32, {-1, 6})},
      [&](int count, std::vector<Tensor> &out) {
        for (int r = 0; r < count; ++r)
          for (int c = 0; c < 96; ++c) {
            float maximum = 0;
            for (int k = c / 32 * 32; k < c / 32 * 32 + 32; ++k)
              maximum = std::max(maximum, std::abs(x.at<float>(r, k)));
            float scale = maximum / 127;
            ASSERT_EQ(out[1].at<float>(r, c / 32), scale);
            float code = scale == 0 ? 0 : std::nearbyint(x.at<float>(r, c) / scale);
            ASSERT_EQ(int(out[0].at<int8_t>(r, c)), int(std::min(127.0f, std::max(-127.0f, code)))) << r << " " << c;
          }
      });
}

void checkRope(int heads, int headDim, int rotaryDim, bool interleaved) {
  int half = rotaryDim / 2, width = heads * headDim, inputWidth = width + 192, context = 50;
  std::string h = std::to_string(heads), d = std::to_string(headDim), w = std::to_string(width),
              in = std::to_string(inputWidth);
  std::string frequencies = "1.0", heads4 = "tensor<1x" + h + "x?x" + d + "xf32>",
              rows4 = "tensor<1x?x" + h + "x" + d + "xf32>";
  for (int i = 1; i < half; ++i)
    frequencies += ", " + std::to_string(std::pow(10000.0, -double(i) / half));
  Tensor x = random({-1, inputWidth}, 9), positions = integers({-1}, context), table = random({context, rotaryDim}, 10);
  std::string text =
      "func.func private @rope_" + h + "x" + d + "_" + std::to_string(rotaryDim) + (interleaved ? "_interleaved" : "") +
      "(%x: tensor<?x" + in + "xf32>, %p: tensor<?xi32>, %t: tensor<?x" + std::to_string(rotaryDim) +
      "xf32>) -> tensor<?x" + w +
      "xf32> {"
      "  %zero = arith.constant 0 : index"
      "  %n = tensor.dim %x, %zero : tensor<?x" +
      in +
      "xf32>"
      "  %s = tensor.extract_slice %x[0, 64] [%n, " +
      w + "] [1, 1] : tensor<?x" + in + "xf32> to tensor<?x" + w +
      "xf32>"
      "  %e = tensor.expand_shape %s [[0, 1], [2, 3]] output_shape [1, %n, " +
      h + ", " + d + "] : tensor<?x" + w + "xf32> into " + rows4 + "  %i = tensor.empty(%n) : " + heads4 +
      "  %q = linalg.transpose ins(%e : " + rows4 + ") outs(%i : " + heads4 +
      ") permutation = [0, 2, 1, 3]"
      "  %b = tensor.expand_shape %p [[0, 1]] output_shape [1, %n] : tensor<?xi32> into tensor<1x?xi32>"
      "  %r = heddle.rope %q, %b table(%t : tensor<?x" +
      std::to_string(rotaryDim) + "xf32>) <" + (interleaved ? "interleaved" : "half") +
      ", table = 0, attention_factor = 1.0, inverse_frequency = array<f32: " + frequencies + ">> : " + heads4 +
      ", tensor<1x?xi32>"
      "  %j = tensor.empty(%n) : " +
      rows4 + "  %u = linalg.transpose ins(%r : " + heads4 + ") outs(%j : " + rows4 +
      ") permutation = [0, 2, 1, 3]"
      "  %c = tensor.collapse_shape %u [[0, 1], [2, 3]] : " +
      rows4 + " into tensor<?x" + w +
      "xf32>"
      "  return %c : tensor<?x" +
      w + "xf32> }";
  checkKernel(
      text, {x, positions, table}, {Tensor(f32, {-1, width}, width + 40)}, [&](int count, std::vector<Tensor> &out) {
        for (int r = 0; r < count; ++r)
          for (int head = 0; head < heads; ++head)
            for (int c = 0; c < headDim; ++c) {
              const float *in = &x.at<float>(r, 64 + head * headDim);
              double expected = in[c], magnitude = 0;
              if (c < rotaryDim) {
                bool first = interleaved ? c % 2 == 0 : c < half;
                int pair = interleaved ? c / 2 : c % half, other = interleaved ? c ^ 1 : first ? c + half : c - half;
                int position = positions.data<int32_t>()[r];
                double cosine = table.at<float>(position, pair), sine = table.at<float>(position, half + pair);
                expected = first ? in[c] * cosine - in[other] * sine : in[c] * cosine + in[other] * sine;
                magnitude = std::abs(in[c] * cosine) + std::abs(in[other] * sine);
              }
              expectClose(out[0].at<float>(r, head * headDim + c), expected, 0, 2e-7 * magnitude, r, c);
            }
      });
}

TEST(HalideKernels, RopeHalf) {
  checkRope(12, 64, 64, false);
}
TEST(HalideKernels, RopeInterleaved) {
  checkRope(3, 64, 64, true);
}
TEST(HalideKernels, RopePartial) {
  checkRope(2, 80, 20, false);
}
TEST(HalideKernels, RopePartialInterleaved) {
  checkRope(2, 24, 12, true);
}

double reference(const std::string &activation, double x) {
  if (activation == "silu")
    return x / (1 + std::exp(-x));
  if (activation == "gelu")
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  if (activation == "gelu_tanh")
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (activation == "relu")
    return std::max(x, 0.0);
  if (activation == "quick_gelu")
    return x / (1 + std::exp(-1.702 * x));
  if (activation == "squared_relu")
    return x > 0 ? x * x : 0;
  return std::tanh(x);
}

TEST(HalideKernels, Glu) {
  for (const char *activation : {"silu", "gelu", "gelu_tanh", "relu", "quick_gelu", "tanh", "squared_relu"}) {
    SCOPED_TRACE(activation);
    Tensor x = random({-1, 200}, 11, 0, 3);
    checkKernel("func.func private @glu_" + std::string(activation) +
                    "(%x: tensor<?x200xf32>, %n: tensor<?xi32>) -> tensor<?x100xf32> {"
                    "  %zero = arith.constant 0 : index"
                    "  %r = tensor.dim %x, %zero : tensor<?x200xf32>"
                    "  %g = tensor.extract_slice %x[0, 0] [%r, 100] [1, 1] : tensor<?x200xf32> to tensor<?x100xf32>"
                    "  %u = tensor.extract_slice %x[0, 100] [%r, 100] [1, 1] : tensor<?x200xf32> to tensor<?x100xf32>"
                    "  %a = heddle.glu <" +
                    activation +
                    "> %g, %u : tensor<?x100xf32>"
                    "  return %a : tensor<?x100xf32> }",
                {x, integers({-1}, 3)}, {Tensor(f32, {-1, 100})}, [&](int count, std::vector<Tensor> &out) {
                  for (int r = 0; r < count; ++r)
                    for (int c = 0; c < 100; ++c) {
                      double gate = x.at<float>(r, c), up = x.at<float>(r, 100 + c);
                      // The activation is off by 2e-7 of its argument where it cancels.
                      expectClose(out[0].at<float>(r, c), reference(activation, gate) * up, 5e-7,
                                  2e-7 * std::abs(gate * up), r, c);
                    }
                });
  }
}

TEST(HalideKernels, Embedding) {
  Tensor ids = integers({-1}, 40), table = random({40, 70}, 12);
  checkKernel(R"(func.func private @embedding(%i: tensor<?xi32>, %t: tensor<40x70xf32>) -> tensor<?x70xf32> {
    %e = heddle.embedding %i, %t {scale = 2.5 : f64} : tensor<?xi32>, tensor<40x70xf32> -> tensor<?x70xf32>
    return %e : tensor<?x70xf32> })",
              {ids, table}, {Tensor(f32, {-1, 70})}, [&](int count, std::vector<Tensor> &out) {
                for (int r = 0; r < count; ++r)
                  for (int c = 0; c < 70; ++c)
                    ASSERT_EQ(out[0].at<float>(r, c), table.at<float>(ids.data<int32_t>()[r], c) * 2.5f);
              });
}

} // namespace
