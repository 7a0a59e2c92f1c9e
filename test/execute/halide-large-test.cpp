// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Guards the index arithmetic of Halide's kernels, whose extents and strides are 32-bit numbers of elements: a table of more than 2^32
// bytes, and rows of activations that lie gigabytes apart. Memory is reserved, and only the rows that a kernel touches are real.

#include "test/execute/HalideKernel.h"
#include "test/execute/SparseMemory.h"

#include <cmath>
#include <vector>

using namespace heddle::test;

namespace {

// A buffer of two dimensions, or of one where `width` is 0.
struct Buffer {
  Buffer(halide_type_t type, void *host, int width, int rows, int rowStride)
      : dims{{0, width ? width : rows, 1}, {0, rows, rowStride}} {
    value.host = static_cast<uint8_t *>(host);
    value.type = type;
    value.dimensions = width ? 2 : 1;
    value.dim = dims;
  }
  halide_dimension_t dims[2];
  halide_buffer_t value = {};
};

// Rows 2^28 elements apart: the third begins behind 2^31 bytes, the fifth behind 2^32.
constexpr int rows = 7, stride = (1 << 28) + 16;
constexpr int64_t rowBytes = 4 * int64_t(stride);

TEST(HalideLarge, rowsFarApart) {
  Kernel kernel(R"(func.func private @norm(%x: tensor<?x48xf32>, %w: tensor<48xf32>) -> tensor<?x48xf32> {
    %n = heddle.rms_norm %x, %w {eps = 1.0e-5 : f64} : tensor<?x48xf32>, tensor<48xf32>
    return %n : tensor<?x48xf32> })",
                "native");
  SparseMemory in(rows * rowBytes), out(rows * rowBytes);
  std::vector<float> weight(48, 2);
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < 48; ++column)
      in.at<float>(row * rowBytes)[column] = float(row + 1) * (column % 2 ? 1.0f : -1.0f);
  Buffer x(f32, in.at<void>(), 48, rows, stride), w(f32, weight.data(), 0, 48, 1),
      y(f32, out.at<void>(), 48, rows, stride);
  kernel.call({x.value, w.value, y.value});
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < 48; ++column)
      ASSERT_NEAR(out.at<float>(row * rowBytes)[column], column % 2 ? 2.0f : -2.0f, 1e-4f) << row << ", " << column;
}

TEST(HalideLarge, tableOfManyRows) {
  constexpr int64_t width = 256, tableRows = (int64_t(1) << 22) + 2; // 1 KiB each
  Kernel kernel(R"(func.func private @embedding(%i: tensor<?xi32>, %t: tensor<4194306x256xf32>) -> tensor<?x256xf32> {
    %e = heddle.embedding %i, %t {scale = 2.5 : f64} : tensor<?xi32>, tensor<4194306x256xf32> -> tensor<?x256xf32>
    return %e : tensor<?x256xf32> })",
                "native");
  std::vector<int32_t> ids;
  for (int64_t border : borders)
    for (int64_t row : {border / 1024 - 1, border / 1024, border / 1024 + 1})
      ids.push_back(int32_t(row));
  SparseMemory table(tableRows * width * 4);
  for (int32_t id : ids)
    for (int64_t column = 0; column < width; ++column)
      table.at<float>(id * width * 4)[column] = float(id % 97 + column);
  int count = int(ids.size());
  std::vector<float> out(count * width);
  Buffer i(i32, ids.data(), 0, count, 1), t(f32, table.at<void>(), width, int(tableRows), width),
      y(f32, out.data(), width, count, width);
  kernel.call({i.value, t.value, y.value});
  for (int row = 0; row < count; ++row)
    for (int64_t column = 0; column < width; ++column)
      ASSERT_EQ(out[row * width + column], float(ids[row] % 97 + column) * 2.5f) << ids[row] << ", " << column;
}

// 512 rows of 2^23 elements are 2^32 as one dimension.
TEST(HalideLarge, refusesToMergeWhatItCannotCount) {
  std::string error, object = emitObject(R"(func.func private @merge(%x: tensor<?x8388608xf32>) -> tensor<?xf32> {
    %c = tensor.collapse_shape %x [[0, 1]] : tensor<?x8388608xf32> into tensor<?xf32>
    %n = math.absf %c : tensor<?xf32>
    return %n : tensor<?xf32> })",
                                         "native", error);
  EXPECT_EQ(object, "");
  EXPECT_NE(error.find("Halide counts to 2147483647, and merged dimensions have 4294967296 elements"),
            std::string::npos)
      << error;
}

} // namespace
