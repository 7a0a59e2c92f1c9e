// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops on buffers against values worked out by hand.

#include "test/verify/Evaluate.h"

using namespace heddle;

TEST(Buffers, AWindowOfColumnsIsAViewOfItsSource) {
  Evaluation run(R"(
    func.func @main(%x: tensor<2x2xf32>) -> tensor<2x4xf32> {
      %rows = arith.constant 2 : index
      %all = memref.alloc(%rows) : memref<?x4xf32>
      %left = memref.subview %all[0, 0] [%rows, 2] [1, 1] : memref<?x4xf32> to memref<?x2xf32, strided<[4, 1]>>
      %right = memref.subview %all[0, 2] [%rows, 2] [1, 1] : memref<?x4xf32> to memref<?x2xf32, strided<[4, 1], offset: 2>>
      %buffer = bufferization.to_buffer %x : tensor<2x2xf32> to memref<2x2xf32>
      memref.copy %buffer, %left : memref<2x2xf32> to memref<?x2xf32, strided<[4, 1]>>
      linalg.add ins(%buffer, %buffer : memref<2x2xf32>, memref<2x2xf32>) outs(%right : memref<?x2xf32, strided<[4, 1], offset: 2>>)
      %dynamic = bufferization.to_tensor %all : memref<?x4xf32> to tensor<?x4xf32>
      %result = tensor.cast %dynamic : tensor<?x4xf32> to tensor<2x4xf32>
      return %result : tensor<2x4xf32>
    })");
  EXPECT_EQ(run.reals({run.f32({2, 2}, {1, 2, 3, 4})}), (Reals{1, 2, 2, 4, 3, 4, 6, 8}));
}

// Two buffers of rows: 8 bytes each; the second at `offset`.
static std::string twoBuffers(int offset, const std::string &writeSecond) {
  return "module attributes {heddle.row_bytes = 16 : i64, heddle.fixed_bytes = 0 : i64} {\n"
         "  func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {\n"
         "    %rows = arith.constant 2 : index\n"
         "    %buffer = bufferization.to_buffer %x : tensor<2x2xf32> to memref<2x2xf32>\n"
         "    %a = memref.alloc(%rows) {heddle.row_offset = 0 : i64} : memref<?x2xf32>\n"
         "    %b = memref.alloc(%rows) {heddle.row_offset = " +
         std::to_string(offset) +
         " : i64} : memref<?x2xf32>\n"
         "    memref.copy %buffer, %a : memref<2x2xf32> to memref<?x2xf32>\n"
         "    %c = arith.constant 7.0 : f32\n    " +
         writeSecond +
         "\n"
         "    %dynamic = bufferization.to_tensor %a : memref<?x2xf32> to tensor<?x2xf32>\n"
         "    %result = tensor.cast %dynamic : tensor<?x2xf32> to tensor<2x2xf32>\n"
         "    return %result : tensor<2x2xf32>\n  }\n}";
}

static const char *const fill = "linalg.fill ins(%c : f32) outs(%b : memref<?x2xf32>)";

TEST(Buffers, PlacesOfTheMemoryPlanMayOverlap) {
  Evaluation apart(twoBuffers(8, fill)), same(twoBuffers(0, fill));
  EXPECT_EQ(apart.reals({apart.f32({2, 2}, {1, 2, 3, 4})}), (Reals{1, 2, 3, 4}));
  EXPECT_EQ(same.reals({same.f32({2, 2}, {1, 2, 3, 4})}), (Reals{7, 7, 7, 7}));
}

TEST(Buffers, AResultOverAnOperandIsAnError) {
  const std::string add = "linalg.add ins(%a, %a : memref<?x2xf32>, memref<?x2xf32>) outs(%b : memref<?x2xf32>)";
  Evaluation apart(twoBuffers(8, add)), same(twoBuffers(0, add));
  EXPECT_EQ(apart.reals({apart.f32({2, 2}, {1, 2, 3, 4})}), (Reals{1, 2, 3, 4}));
  EXPECT_NE(same.error({same.f32({2, 2}, {1, 2, 3, 4})}).find("writes a result over an operand"), std::string::npos);
}

TEST(Buffers, APlaceOutsideTheArenaIsAnError) {
  Evaluation run(twoBuffers(12, fill));
  EXPECT_NE(run.error({run.f32({2, 2}, {1, 2, 3, 4})}).find("lies outside the arena"), std::string::npos);
}

TEST(Buffers, WhatWasNeverWrittenIsNaN) {
  Evaluation run(R"(
    func.func @main() -> tensor<1xf32> {
      %a = memref.alloc() : memref<1xf32>
      %0 = bufferization.to_tensor %a : memref<1xf32> to tensor<1xf32>
      return %0 : tensor<1xf32>
    })");
  EXPECT_TRUE(std::isnan(run.reals({})[0]));
}

TEST(Buffers, WhatCameAsATensorIsReadOnly) {
  Evaluation run(R"(
    func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {
      %a = bufferization.to_buffer %x : tensor<1xf32> to memref<1xf32>
      linalg.add ins(%a, %a : memref<1xf32>, memref<1xf32>) outs(%a : memref<1xf32>)
      return %x : tensor<1xf32>
    })");
  EXPECT_NE(run.error({run.f32({1}, {1})}).find("writes to what is read only"), std::string::npos);
}
