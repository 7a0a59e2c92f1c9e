// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Objects emitted through Halide: the same bytes always, and errors instead of wrong code.

#include "test/execute/HalideKernel.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "gtest/gtest.h"

using namespace heddle::test;

namespace {

const char *const residualNormQuantize =
    R"(func.func private @k(%x: tensor<?x576xf32>, %y: tensor<?x576xf32>, %w: tensor<576xbf16>)
      -> (tensor<?x576xf32>, tensor<?x576xi8>, tensor<?x18xf32>, tensor<?x36xi32>) {
    %h = arith.addf %x, %y : tensor<?x576xf32>
    %n = heddle.rms_norm %h, %w {eps = 1.0e-5 : f64} : tensor<?x576xf32>, tensor<576xbf16>
    %c, %s, %q = heddle.quantize %n : tensor<?x576xf32> -> tensor<?x576xi8>, tensor<?x18xf32>, tensor<?x36xi32>
    return %h, %c, %s, %q : tensor<?x576xf32>, tensor<?x576xi8>, tensor<?x18xf32>, tensor<?x36xi32> })";
const char *const gelu = R"(func.func private @k(%g: tensor<?x1536xf32>, %u: tensor<?x1536xf32>) -> tensor<?x1536xf32> {
    %a = heddle.glu <gelu> %g, %u : tensor<?x1536xf32>
    return %a : tensor<?x1536xf32> })";

// Names in Halide carry counters of the process: they must not reach the object.
TEST(HalideKernels, SameBytesWhateverWasEmittedBefore) {
  std::string error;
  for (const char *target : {"native", "x86-64-v3", "aarch64"}) {
    std::string norm = emitObject(residualNormQuantize, target, error), activation = emitObject(gelu, target, error);
    ASSERT_FALSE(norm.empty() || activation.empty()) << error;
    for (int i = 0; i < 12; ++i) {
      EXPECT_EQ(norm == emitObject(residualNormQuantize, target, error), true) << target << " " << i;
      EXPECT_EQ(activation == emitObject(gelu, target, error), true) << target << " " << i;
    }
  }
}

// A process that has emitted nothing before: this program as `--emit TARGET`, MLIR in, object out.
std::string emitElsewhere(const std::string &mlir, const std::string &target) {
  llvm::SmallString<128> input, output;
  int fd = -1;
  if (llvm::sys::fs::createTemporaryFile("kernel", "mlir", fd, input) ||
      llvm::sys::fs::createTemporaryFile("kernel", "o", output))
    return "";
  llvm::raw_fd_ostream(fd, /*shouldClose=*/true) << mlir;
  std::string self = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  int status = llvm::sys::ExecuteAndWait(self, {self, "--emit", target, input, output});
  auto buffer = llvm::MemoryBuffer::getFile(output);
  llvm::sys::fs::remove(input);
  llvm::sys::fs::remove(output);
  return status == 0 && buffer ? (*buffer)->getBuffer().str() : "";
}

TEST(HalideKernels, SameBytesInAnotherProcess) {
  std::string error;
  for (const char *target : {"native", "aarch64"})
    for (const char *mlir : {residualNormQuantize, gelu})
      EXPECT_TRUE(emitObject(mlir, target, error) == emitElsewhere(mlir, target)) << target << error;
}

std::string errorOf(const std::string &mlir) {
  std::string error;
  EXPECT_EQ(emitObject(mlir, "x86-64-v3", error), "");
  return error;
}

TEST(HalideErrors, OpWithoutForm) {
  EXPECT_NE(errorOf(R"(func.func private @k(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
    %y = math.tan %x : tensor<?x8xf32> return %y : tensor<?x8xf32> })")
                .find("no form of this op"),
            std::string::npos);
}

TEST(HalideErrors, TypeWithoutForm) {
  EXPECT_NE(errorOf(R"(func.func private @k(%x: tensor<?x8xf64>) -> tensor<?x8xf64> {
    %y = math.exp %x : tensor<?x8xf64> return %y : tensor<?x8xf64> })")
                .find("for these types"),
            std::string::npos);
}

TEST(HalideErrors, ScalarArgument) {
  EXPECT_NE(
      errorOf("func.func private @k(%x: f32) -> f32 { return %x : f32 }").find("cannot read argument 0 of type 'f32'"),
      std::string::npos);
}

TEST(HalideErrors, SecondDynamicDimension) {
  EXPECT_NE(errorOf("func.func private @k(%x: tensor<?x?xf32>) -> tensor<?x?xf32> { return %x : tensor<?x?xf32> }")
                .find("dynamic dimension that is not its first"),
            std::string::npos);
}

TEST(HalideErrors, DynamicOffset) {
  EXPECT_NE(errorOf(R"(func.func private @k(%x: tensor<?x8xf32>) -> tensor<?x4xf32> {
    %zero = arith.constant 0 : index
    %n = tensor.dim %x, %zero : tensor<?x8xf32>
    %s = tensor.extract_slice %x[0, %n] [%n, 4] [1, 1] : tensor<?x8xf32> to tensor<?x4xf32>
    return %s : tensor<?x4xf32> })")
                .find("static offsets"),
            std::string::npos);
}

TEST(HalideErrors, RopeWithoutTable) {
  EXPECT_NE(errorOf(R"(func.func private @k(%x: tensor<1x1x?x4xf32>, %p: tensor<1x?xi32>) -> tensor<1x1x?x4xf32> {
    %r = heddle.rope %x, %p, <half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.5>>
      : tensor<1x1x?x4xf32>, tensor<1x?xi32>
    return %r : tensor<1x1x?x4xf32> })")
                .find("must be an input of the kernel"),
            std::string::npos);
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 5 && llvm::StringRef(argv[1]) == "--emit") {
    auto input = llvm::MemoryBuffer::getFile(argv[3]);
    std::string error, object = input ? emitObject((*input)->getBuffer().str(), argv[2], error) : "";
    std::error_code failed;
    llvm::raw_fd_ostream(argv[4], failed) << object;
    llvm::errs() << error;
    return object.empty() || failed;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
