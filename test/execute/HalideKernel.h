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

// Twice the widest vector and one: rows of every tensor that has rows.
constexpr int maxRows = 2 * 16 + 1;

// Normal values; every seventh row is a thousand times as large.
Tensor random(std::vector<int> shape, unsigned seed, int rowStride = 0, float scale = 1);
// Row r holds (37 r + 5) % modulus.
Tensor integers(std::vector<int> shape, int modulus);
// f32 values cut to bf16.
Tensor toBf16(const Tensor &source);
double fromBf16(uint16_t bits);
void expectClose(double actual, double expected, double relative, double absolute, int row, int column);

// The object's bytes; empty on error, with the diagnostic in `error`.
std::string emitObject(const std::string &mlir, const std::string &target, std::string &error);

class Kernel {
public:
  Kernel(const std::string &mlir, const std::string &target);
  ~Kernel();
  Kernel(const Kernel &) = delete;
  // Runs on rows [begin, begin + count) of tensors that have rows.
  void run(std::vector<Tensor *> tensors, int begin, int count) const;
  // Runs on these buffers, in the order of the signature.
  void call(std::vector<halide_buffer_t> buffers) const;

private:
  void *library = nullptr;
  void *symbol = nullptr;
};

// Runs all rows at once, hands the outputs to `check`, and then demands that every slice of 1 … maxRows rows writes
// the same bits to its rows and nothing elsewhere; on this machine and on x86-64-v3. On AArch64, under emulation, the
// bits must be the same again. Tensors are those of the signature in order.
void checkKernel(const std::string &mlir, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                 const std::function<void(int rows, std::vector<Tensor> &outputs)> &check);

} // namespace heddle::test

#endif
