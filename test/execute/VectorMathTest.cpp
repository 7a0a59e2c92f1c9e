// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each function beside libm's f64: every 257th f32 from -inf to inf (denormals, NaNs and the places where forms change among them), on
// every instruction set that this machine runs.

#include "test/execute/KernelLibrary.h"

#include "compiler/codegen/kernel/RawBuilder.h"
#include "compiler/codegen/kernel/VectorMath.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace heddle;
using namespace heddle::test;

using Elementwise = void(const float *, float *, int64_t);
using Emit = mlir::Value (*)(mlir::ImplicitLocOpBuilder &, mlir::Value);

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), notANumber = std::numeric_limits<float>::quiet_NaN();

// A function, the f64 that it must come near to, the operands that it is for, and by how many units in the last place it may differ
// (or by `absolute`, where the exact result is smaller).
struct Function {
  const char *name;
  Emit emit;
  double (*exact)(double);
  double units;
  float low = -infinity, high = infinity;
  double absolute = 0;
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double normalDistribution(double x) {
  return std::erfc(-x * 0.70710678118654752) / 2;
}
double tanhOfExponent(double z) {
  return std::tanh(z / (2 * 1.4426950408889634));
}

const Function functions[] = {
    {"exp", emitExp, std::exp, 2},
    {"exp2_of_any", emitExp2OfAny, std::exp2, 2},
    {"exp2", emitExp2, std::exp2, 1.3, -126, 127},
    {"exp_of_negative", emitExpOfNegative, std::exp, 2, -87, 0},
    {"expm1", emitExpm1, std::expm1, 3},
    {"log", emitLog, std::log, 2},
    {"log2", emitLog2, std::log2, 2},
    {"log1p", emitLog1p, std::log1p, 3},
    {"tanh", emitTanh, std::tanh, 4},
    {"tanh_of_exponent", emitTanhOfExponent, tanhOfExponent, 3},
    {"sigmoid", emitSigmoid, sigmoid, 4, -87, infinity},
    {"erf", emitErf, std::erf, 3},
    {"normal_distribution", emitNormalDistribution, normalDistribution, 1, -infinity, infinity, 1e-7},
    {"sin", emitSin, std::sin, 2, -0x1p40f, 0x1p40f},
    {"cos", emitCos, std::cos, 2, -0x1p40f, 0x1p40f},
};

void build(KernelLibrary &library) {
  unsigned lanes = library.target().vectorLanes();
  for (const Function &f : functions) {
    RawBuilder b(library.module().getLoc(), library.module().getContext());
    mlir::Type types[] = {b.pointerType(), b.pointerType(), b.getI64Type()};
    mlir::func::FuncOp function = beginFunction(b, library.module(), std::string("test_") + f.name, types);
    b.loop(b.constant(0), function.getArgument(2), lanes, [&](mlir::Value i) {
      mlir::Value x = b.loadFloats(b.at(function.getArgument(0), i, sizeof(float)), lanes);
      b.store(f.emit(b, x), b.at(function.getArgument(1), i, sizeof(float)));
    });
    mlir::func::ReturnOp::create(b);
  }
}

std::vector<float> apply(KernelLibrary &library, const Function &f, const std::vector<float> &x) {
  std::vector<float> padded = x, y;
  padded.resize((x.size() + 15) / 16 * 16);
  y.resize(padded.size());
  library.find<Elementwise>((std::string("test_") + f.name).c_str())(padded.data(), y.data(), int64_t(padded.size()));
  y.resize(x.size());
  return y;
}

std::vector<float> operandsOf(const Function &f) {
  std::vector<float> operands = {0.0f, -0.0f, 1.0f, -1.0f, f.low, f.high, 0x1p-149f, -0x1p-149f, 0x1p-126f};
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 257) {
    uint32_t word = uint32_t(bits);
    float x;
    memcpy(&x, &word, sizeof(x));
    if (std::isnan(x) || (x >= f.low && x <= f.high))
      operands.push_back(x);
  }
  return operands;
}

// The distance of f32 numbers at `exact`; that of denormals below the normal ones.
double unitInLastPlace(double exact) {
  return std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23);
}

// How far `y` is from `exact`, in units: 0 for what is equal once rounded, infinite for what may not differ.
double distance(const Function &f, float y, double exact) {
  float rounded = float(exact);
  if (std::isnan(exact) || std::isnan(y))
    return std::isnan(exact) && std::isnan(y) ? 0 : infinity;
  if (y == rounded || std::abs(y - exact) <= f.absolute)
    return 0;
  // The largest number may stand for infinity and the other way round, where the exact result lies between them.
  if (std::isinf(y) || std::isinf(rounded))
    return std::abs(std::isinf(y) ? exact : double(y)) > 0.9999999 * std::numeric_limits<float>::max() ? 0 : infinity;
  return std::abs(y - exact) / unitInLastPlace(exact);
}

TEST(VectorMath, StaysWithinItsUnitsOverTheWholeRange) {
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    KernelLibrary library(target);
    build(library);
    ASSERT_TRUE(library.load());
    for (const Function &f : functions) {
      std::vector<float> x = operandsOf(f), y = apply(library, f, x);
      double worst = 0;
      float at = 0;
      for (size_t i = 0; i < x.size(); ++i)
        if (double d = distance(f, y[i], f.exact(x[i])); d > worst) {
          worst = d;
          at = x[i];
        }
      EXPECT_LE(worst, f.units) << f.name << "(" << at << ") on " << target << " is " << apply(library, f, {at})[0]
                                << ", not " << f.exact(at);
    }
  }
}

// What kernels rely on to the bit.
TEST(VectorMath, FormsOfKernelsAtTheirEdges) {
  KernelLibrary library("native");
  build(library);
  ASSERT_TRUE(library.load());
  const Function &exp2 = functions[2], &exp = functions[3];
  std::vector<float> y = apply(library, exp2, {0.0f, -0.0f, 1.0f, -126.0f, -127.0f, -1e38f, -infinity, notANumber});
  for (size_t i = 0; i < 7; ++i)
    EXPECT_EQ(y[i], (std::vector<float>{1.0f, 1.0f, 2.0f, 0x1p-126f, 0.0f, 0.0f, 0.0f})[i]) << i;
  EXPECT_TRUE(std::isnan(y[7]));
  y = apply(library, exp, {0.0f, -0.0f, -88.0f, -infinity, notANumber});
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(y[i], (std::vector<float>{1.0f, 1.0f, 0.0f, 0.0f})[i]) << i;
  EXPECT_TRUE(std::isnan(y[4]));
}

// Beyond what can be reduced, sines stay sines.
TEST(VectorMath, SinesOfHugeNumbersAreBounded) {
  KernelLibrary library("native");
  build(library);
  ASSERT_TRUE(library.load());
  for (const Function &f : functions)
    if (f.emit == emitSin || f.emit == emitCos)
      for (float y : apply(library, f, {0x1p60f, -0x1p90f, 3e38f, 1.7e22f}))
        EXPECT_LE(std::abs(y), 1.0f);
}

} // namespace
