// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/weights/WeightsSection.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <cstdio>
#include <unistd.h>

using namespace mlir;
using namespace heddle;

namespace {

// A model file of `size` bytes and the section that one weight of it makes.
class WeightsSection : public testing::Test {
protected:
  WeightsSection() : diagnostics(&context, [&](Diagnostic &diagnostic) { message = diagnostic.str(); }) {
    context.loadDialect<HeddleDialect, func::FuncDialect>();
  }

  // A weight of `type` that is packed from one source: `layout` and `storage` as #heddle.packing and #heddle.storage have them.
  bool write(const std::string &layout, const std::string &shape, const std::string &rows, const std::string &storage,
             const std::string &type, float first = 0) {
    char path[] = "/tmp/heddle-weights-XXXXXX";
    int descriptor = mkstemp(path);
    EXPECT_EQ(ftruncate(descriptor, 1024), 0);
    EXPECT_EQ(pwrite(descriptor, &first, sizeof first, 0), ssize_t(sizeof first));
    auto file = mapShared(descriptor, "model");
    unlink(path);
    Checkpoint checkpoint;
    checkpoint.files.push_back(*file);
    std::string text = "func.func @f() { %0 = heddle.weight \"w\" packed <layout = " + layout + ", shape = [" + shape +
                       "], offset = 0, sources = [<name = \"w\", rows = " + rows + ", storage = <" + storage +
                       ">>]> : " + type + "\n return }";
    auto module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    EXPECT_TRUE(module) << message;
    uint64_t written = 0;
    auto done = streamWeights(*module, checkpoint,
                              [&](uint64_t, ArrayRef<uint8_t> bytes) { return written += bytes.size(), true; });
    EXPECT_EQ(succeeded(done), message.empty());
    return succeeded(done);
  }

  MLIRContext context;
  std::string message;
  ScopedDiagnosticHandler diagnostics;
};

TEST_F(WeightsSection, WritesWhatLiesInTheFile) {
  const std::string stacked = "stacked, format = \"f32\"", vector = "vector, format = \"f32\"",
                    quantised = "stacked, format = \"q8_0\"";
  EXPECT_TRUE(write(stacked, "16, 16", "16", "type = \"f32\", file = 0, offset = 0", "tensor<1024xi8>")) << message;
  EXPECT_TRUE(write(vector, "256", "256", "type = \"f32\", file = 0, offset = 0", "tensor<256xf32>")) << message;
  EXPECT_TRUE(write(quantised, "16, 32", "16", "type = \"q8_0\", file = 0, offset = 480", "tensor<576xi8>")) << message;
}

TEST_F(WeightsSection, ConvertsWhatHasAFileType) {
  const std::string half = "stacked, format = \"f16\"", quantised = "stacked, format = \"q8_0\"",
                    floats = "type = \"f16\", file = 0, offset = 0, fileType = \"f32\"";
  EXPECT_TRUE(write(half, "8, 32", "8", floats, "tensor<1024xi8>", 65504)) << message;
  EXPECT_FALSE(write(half, "8, 32", "8", floats, "tensor<1024xi8>", 70000));
  EXPECT_NE(message.find("'w' has a number (7.000000e+04) that f16 does not hold: compile without --weights=f16"),
            std::string::npos)
      << message;
  message.clear();
  EXPECT_FALSE(
      write(quantised, "4, 16", "4", "type = \"q8_0\", file = 0, offset = 0, fileType = \"f32\"", "tensor<576xi8>"));
  EXPECT_NE(message.find("'w': blocks of \"q8_0\" do not divide [4, 16]"), std::string::npos) << message;
  message.clear();
  EXPECT_FALSE(write("stacked, format = \"q5_0\"", "4, 32", "4",
                     "type = \"q5_0\", file = 0, offset = 0, fileType = \"f32\"", "tensor<704xi8>"));
  EXPECT_NE(message.find("names no stored tensor"), std::string::npos) << message;
  message.clear();
}

TEST_F(WeightsSection, RefusesWhatDoesNot) {
  const std::string stacked = "stacked, format = \"f32\"", vector = "vector, format = \"f32\"",
                    quantised = "stacked, format = \"q8_0\"";
  EXPECT_FALSE(write(stacked, "16, 16", "16", "type = \"f32\", file = 0, offset = 4", "tensor<1024xi8>"));
  EXPECT_NE(message.find("'w': 256 elements at byte 4 do not lie in model of 1024 bytes"), std::string::npos)
      << message;
  message.clear();
  EXPECT_FALSE(write(quantised, "16, 32", "16", "type = \"q8_0\", file = 0, offset = 481", "tensor<576xi8>"));
  message.clear();
  EXPECT_FALSE(write(stacked, "16, 16", "16", "type = \"f32\", file = -1, offset = 0", "tensor<1024xi8>"));
  EXPECT_NE(message.find("names no file of the model"), std::string::npos) << message;
  message.clear();
  EXPECT_FALSE(write(vector, "257", "257", "type = \"f32\", file = 0, offset = 0", "tensor<257xf32>"));
  message.clear();
  EXPECT_FALSE(
      write(stacked, "16, 4611686018427387904", "16", "type = \"f32\", file = 0, offset = 0", "tensor<1024xi8>"));
  EXPECT_NE(message.find("no matrix has 16 rows of 4611686018427387904"), std::string::npos) << message;
  message.clear();
  // Bytes behind a weight are another's.
  EXPECT_FALSE(write(stacked, "16, 16", "16", "type = \"f32\", file = 0, offset = 0", "tensor<1088xi8>"));
  EXPECT_NE(message.find("'w' is packed in 1024 bytes, its type 'tensor<1088xi8>' has 1088"), std::string::npos)
      << message;
}

} // namespace
