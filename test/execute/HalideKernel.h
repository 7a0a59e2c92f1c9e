// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a kernel given as MLIR text, links and loads it, and runs it on slices of rows between canaries.
#ifndef HEDDLE_TEST_EXECUTE_HALIDEKERNEL_H
#define HEDDLE_TEST_EXECUTE_HALIDEKERNEL_H

#include "HalideRuntime.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace heddle::test {

// A tensor in memory, dimensions outermost first, with room around it.
struct Tensor {
  Tensor(halide_type_t type, std::vector<int> shape, int rowStride = 0);
  template <typename T> T *data() { return reinterpret_cast<T *>(bytes.data() + canary); }
  template <typename T> const T *data() const { return reinterpret_cast<const T *>(bytes.data() + canary); }
  template <typename T> T &at(int row, int column) { return data<T>()[size_t(row) * rowStride + column]; }
  int elementBytes() const { return (type.bits + 7) / 8; }
  bool hasRows() const { return shape[0] < 0; }

  static constexpr size_t canary = 256;
  halide_type_t type;
  std::vector<int> shape; // -1: rows
  int rowStride;          // elements
  int rows = 0;           // allocated
  std::vector<uint8_t> bytes;
  void allocate(int rows);
};

inline const halide_type_t f32(halide_type_float, 32), bf16(halide_type_bfloat, 16), f16(halide_type_float, 16),
    i8(halide_type_int, 8), i32(halide_type_int, 32);

// The object's bytes; empty on error, with the diagnostic in `error`.
std::string emitObject(const std::string &mlir, const std::string &target, std::string &error);

class Kernel {
public:
  Kernel(const std::string &mlir, const std::string &target);
  ~Kernel();
  Kernel(const Kernel &) = delete;
  // Runs on rows [begin, begin + count) of tensors that have rows.
  void run(std::vector<Tensor *> tensors, int begin, int count) const;

private:
  void *library = nullptr;
  void *symbol = nullptr;
};

// Fills inputs, runs all rows at once, hands the outputs to `check`, and then demands that every slice of 1 … 2 * 16 + 1 rows
// writes the same bits to its rows and nothing elsewhere. Tensors are those of the signature in order.
void checkKernel(const std::string &mlir, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                 const std::function<void(int rows, std::vector<Tensor> &outputs)> &check);

} // namespace heddle::test

#endif
