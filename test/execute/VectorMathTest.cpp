// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/execute/KernelLibrary.h"

#include "compiler/codegen/cpu/VectorMath.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace heddle;
using namespace heddle::test;

using Elementwise = void(const float *, float *, int64_t);

namespace {

// Two kernels over n vectors of the target's width: exp2(x), and tanh(y) from x = 2 log2(e) y.
void build(KernelLibrary &library) {
  unsigned lanes = library.target().vectorLanes();
  for (bool tanh : {false, true}) {
    RawBuilder b(library.module().getLoc(), library.module().getContext());
    mlir::Type types[] = {b.pointerType(), b.pointerType(), b.getI64Type()};
    mlir::func::FuncOp function = beginFunction(b, library.module(), tanh ? "tanh_of" : "exp2_of", types);
    b.loop(b.constant(0), function.getArgument(2), lanes, [&](mlir::Value i) {
      mlir::Value x = b.loadFloats(b.at(function.getArgument(0), i, sizeof(float)), lanes);
      b.store(tanh ? emitTanhOfExponent(b, x) : emitExp2(b, x), b.at(function.getArgument(1), i, sizeof(float)));
    });
    mlir::func::ReturnOp::create(b);
  }
}

std::vector<float> apply(KernelLibrary &library, const char *name, const std::vector<float> &x) {
  std::vector<float> padded = x, y;
  padded.resize((x.size() + 15) / 16 * 16);
  y.resize(padded.size());
  library.find<Elementwise>(name)(padded.data(), y.data(), int64_t(padded.size()));
  y.resize(x.size());
  return y;
}

double unitInLastPlace(double exact) {
  return std::ldexp(1.0, std::ilogb(float(exact)) - 23);
}

TEST(VectorMath, Exp2StaysWithinItsUnits) {
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    KernelLibrary library(target);
    build(library);
    ASSERT_TRUE(library.load());
    std::vector<float> x;
    for (float value = -126; value < 127; value += 0.00171f)
      x.push_back(value);
    std::vector<float> y = apply(library, "exp2_of", x);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i)
      worst = std::max(worst, std::abs(y[i] - std::exp2(double(x[i]))) / unitInLastPlace(std::exp2(double(x[i]))));
    EXPECT_LE(worst, 1.3) << target;
  }
}

TEST(VectorMath, Exp2AtTheEdges) {
  KernelLibrary library("native");
  build(library);
  ASSERT_TRUE(library.load());
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> y = apply(library, "exp2_of", {0.0f, -0.0f, 1.0f, -126.0f, -127.0f, -1e38f, -infinity, nan});
  for (size_t i = 0; i < 7; ++i)
    EXPECT_EQ(y[i], (std::vector<float>{1.0f, 1.0f, 2.0f, 0x1p-126f, 0.0f, 0.0f, 0.0f})[i]) << i;
  EXPECT_TRUE(std::isnan(y[7]));
}

TEST(VectorMath, TanhNearZeroAndFarOut) {
  KernelLibrary library("native");
  build(library);
  ASSERT_TRUE(library.load());
  std::vector<float> z;
  for (float value = 1e-6f; value < 200; value *= 1.01f) {
    z.push_back(value);
    z.push_back(-value);
  }
  std::vector<float> y = apply(library, "tanh_of", z);
  for (size_t i = 0; i < z.size(); ++i) {
    double exact = std::tanh(double(z[i]) / (2 * 1.4426950408889634));
    EXPECT_NEAR(y[i], exact, 3 * unitInLastPlace(exact)) << z[i];
  }
}

} // namespace
