// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/execute/HalideKernel.h"
#include "test/execute/ForeignProgram.h"

#include "compiler/codegen/halide/HalideEmitter.h"
#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/schedule/ScheduleTable.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "gtest/gtest.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <dlfcn.h>
#include <limits>
#include <random>

using namespace heddle;
using namespace heddle::test;

Tensor::Tensor(halide_type_t type, std::vector<int> shape, int stride) : type(type), shape(std::move(shape)) {
  int width = 1;
  for (size_t d = 1; d < this->shape.size(); ++d)
    width *= this->shape[d];
  rowStride = stride ? stride : width;
  allocate(hasRows() ? 0 : this->shape[0]);
}

void Tensor::allocate(int count) {
  rows = count;
  bytes.assign(2 * canary + size_t(rows) * rowStride * elementBytes(), 0xA5);
}

Tensor heddle::test::random(std::vector<int> shape, unsigned seed, int rowStride, float scale) {
  Tensor tensor(f32, std::move(shape), rowStride);
  if (tensor.hasRows())
    tensor.allocate(maxRows);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, scale);
  for (int r = 0; r < tensor.rows; ++r)
    for (int c = 0; c < tensor.rowStride; ++c)
      tensor.at<float>(r, c) = normal(generator) * (tensor.shape.size() > 1 && r % 7 == 3 ? 1000.0f : 1.0f);
  return tensor;
}

Tensor heddle::test::integers(std::vector<int> shape, int modulus) {
  Tensor tensor(i32, std::move(shape));
  if (tensor.hasRows())
    tensor.allocate(maxRows);
  for (int r = 0; r < tensor.rows; ++r)
    tensor.data<int32_t>()[r] = (r * 37 + 5) % modulus;
  return tensor;
}

Tensor heddle::test::toBf16(const Tensor &source) {
  Tensor result(bf16, source.shape);
  for (int i = 0; i < source.rows * source.rowStride; ++i)
    std::memcpy(result.data<uint16_t>() + i, reinterpret_cast<const char *>(source.data<float>() + i) + 2, 2);
  return result;
}

double heddle::test::fromBf16(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

void heddle::test::expectClose(double actual, double expected, double relative, double absolute, int row, int column) {
  ASSERT_LE(std::abs(actual - expected), relative * std::abs(expected) + absolute)
      << "row " << row << ", column " << column << ": " << actual << " instead of " << expected;
}

std::string heddle::test::emitObject(const std::string &mlir, const std::string &targetName, std::string &error) {
  mlir::DialectRegistry registry;
  registry.insert<HeddleDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect, mlir::math::MathDialect,
                  mlir::tensor::TensorDialect, mlir::linalg::LinalgDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) { error += diagnostic.str() + "\n"; });
  context.loadDialect<HeddleDialect>();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(mlir, &context);
  auto target = parseTarget(targetName, error);
  if (!module || mlir::failed(target))
    return "";
  auto kernel = *module->getOps<mlir::func::FuncOp>().begin();
  auto start = std::chrono::steady_clock::now();
  mlir::FailureOr<std::string> object =
      emitHalideKernel(kernel, rowsSchedule(targetAttr(&context, *target)), *target, "kernel");
  auto ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  std::printf("  %s for %s: %.0f ms\n", kernel.getName().str().c_str(), targetName.c_str(), ms);
  return mlir::succeeded(object) ? *object : "";
}

namespace {
struct TemporaryFile {
  TemporaryFile(llvm::StringRef suffix, llvm::StringRef content = "") {
    int fd = -1;
    if (llvm::sys::fs::createTemporaryFile("kernel", suffix, fd, path))
      ADD_FAILURE() << "no temporary file";
    else
      llvm::raw_fd_ostream(fd, /*shouldClose=*/true) << content;
  }
  ~TemporaryFile() { llvm::sys::fs::remove(path); }
  llvm::SmallString<128> path;
};
} // namespace

Kernel::Kernel(const std::string &mlir, const std::string &target) {
  std::string error, object = emitObject(mlir, target, error);
  EXPECT_FALSE(object.empty()) << error;
  if (object.empty())
    return;
  TemporaryFile objectFile("o", object), libraryFile("so");
  EXPECT_EQ(llvm::sys::ExecuteAndWait(HEDDLE_LLD, {HEDDLE_LLD, "-shared", "-o", libraryFile.path, objectFile.path}), 0);
  library = dlopen(libraryFile.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  symbol = library ? dlsym(library, "kernel") : nullptr;
}

Kernel::~Kernel() {
  if (library)
    dlclose(library);
}

// Calls a function of n buffers.
static int callBuffers(void *function, std::vector<halide_buffer_t> &b) {
  using P = halide_buffer_t *;
  switch (b.size()) {
  case 2:
    return reinterpret_cast<int (*)(P, P)>(function)(&b[0], &b[1]);
  case 3:
    return reinterpret_cast<int (*)(P, P, P)>(function)(&b[0], &b[1], &b[2]);
  case 4:
    return reinterpret_cast<int (*)(P, P, P, P)>(function)(&b[0], &b[1], &b[2], &b[3]);
  case 5:
    return reinterpret_cast<int (*)(P, P, P, P, P)>(function)(&b[0], &b[1], &b[2], &b[3], &b[4]);
  case 6:
    return reinterpret_cast<int (*)(P, P, P, P, P, P)>(function)(&b[0], &b[1], &b[2], &b[3], &b[4], &b[5]);
  case 7:
    return reinterpret_cast<int (*)(P, P, P, P, P, P, P)>(function)(&b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6]);
  }
  ADD_FAILURE() << "no call for " << b.size() << " buffers";
  return 1;
}

// Dimensions of a tensor's buffer, innermost first, for `count` rows.
static std::vector<halide_dimension_t> dimensionsOf(const Tensor &tensor, int count) {
  std::vector<halide_dimension_t> dims;
  int stride = 1;
  for (size_t d = tensor.shape.size(); d-- > 1; stride *= tensor.shape[d])
    dims.push_back({0, tensor.shape[d], stride});
  dims.push_back({0, tensor.hasRows() ? count : tensor.shape[0], tensor.shape.size() == 1 ? 1 : tensor.rowStride});
  return dims;
}

void Kernel::call(std::vector<halide_buffer_t> buffers) const {
  ASSERT_NE(symbol, nullptr);
  EXPECT_EQ(callBuffers(symbol, buffers), 0);
}

void Kernel::run(std::vector<Tensor *> tensors, int begin, int count) const {
  std::vector<halide_buffer_t> buffers(tensors.size());
  std::vector<std::vector<halide_dimension_t>> dims(tensors.size());
  for (size_t t = 0; t < tensors.size(); ++t) {
    Tensor &tensor = *tensors[t];
    dims[t] = dimensionsOf(tensor, count);
    buffers[t] = {};
    buffers[t].host =
        tensor.data<uint8_t>() + (tensor.hasRows() ? size_t(begin) * tensor.rowStride * tensor.elementBytes() : 0);
    buffers[t].type = tensor.type;
    buffers[t].dimensions = int(dims[t].size());
    buffers[t].dim = dims[t].data();
  }
  call(std::move(buffers));
}

// What foreign-kernel.c reads.
static std::string serialize(const std::vector<Tensor *> &tensors) {
  std::string bytes;
  auto put = [&](int32_t value) { bytes.append(reinterpret_cast<const char *>(&value), sizeof value); };
  put(int32_t(tensors.size()));
  for (const Tensor *tensor : tensors) {
    std::vector<halide_dimension_t> dims = dimensionsOf(*tensor, tensor->rows);
    for (int32_t value : {int32_t(tensor->type.code), int32_t(tensor->type.bits), int32_t(dims.size()),
                          int32_t(tensor->bytes.size()), int32_t(Tensor::canary)})
      put(value);
    for (const halide_dimension_t &dim : dims)
      for (int32_t value : {dim.min, dim.extent, dim.stride})
        put(value);
    bytes.append(tensor->bytes.begin(), tensor->bytes.end());
  }
  return bytes;
}

// All rows on AArch64, under emulation; the tensors' bytes are replaced. False if this machine lacks the tools.
static bool runForeign(const std::string &mlir, const std::vector<Tensor *> &tensors) {
  if (!missingForAArch64().empty())
    return false;
  std::string error, object = emitObject(mlir, "aarch64", error);
  EXPECT_EQ(error, "");
  std::optional<std::string> out = runOnAArch64(HEDDLE_SOURCE_DIR "/test/execute/foreign-kernel.c",
                                                HEDDLE_HALIDE_INCLUDE, object, serialize(tensors));
  size_t from = 0;
  for (Tensor *tensor : tensors) {
    if (!out || out->size() - from < tensor->bytes.size())
      return ADD_FAILURE() << "no output of the emulated kernel", false;
    std::memcpy(tensor->bytes.data(), out->data() + from, tensor->bytes.size());
    from += tensor->bytes.size();
  }
  return true;
}

// What a slice must leave: `full` in its rows and columns, the canary elsewhere.
static void expectSlice(const Tensor &slice, const Tensor &full, int begin, int count) {
  int width = 1;
  for (size_t d = 1; d < slice.shape.size(); ++d)
    width *= slice.shape[d];
  size_t size = slice.elementBytes(), first = Tensor::canary, last = slice.bytes.size() - Tensor::canary;
  for (size_t i = 0; i < slice.bytes.size(); ++i) {
    bool inside = i >= first && i < last;
    size_t element = inside ? (i - first) / size : 0;
    int row = int(element / slice.rowStride), column = int(element % slice.rowStride);
    inside = inside && column < width && (!slice.hasRows() || (row >= begin && row < begin + count));
    ASSERT_EQ(int(slice.bytes[i]), inside ? int(full.bytes[i]) : 0xA5)
        << "rows " << begin << " + " << count << ": row " << row << ", column " << column
        << (inside ? "" : " (canary)");
  }
}

// Processors differ in the bits of what is not a number.
static void unifyNans(Tensor &tensor) {
  if (tensor.type == f32)
    for (int i = 0; i < tensor.rows * tensor.rowStride; ++i)
      if (float &value = tensor.data<float>()[i]; std::isnan(value))
        value = std::numeric_limits<float>::quiet_NaN();
}

void heddle::test::checkKernel(const std::string &mlir, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                               const std::function<void(int, std::vector<Tensor> &)> &check) {
  std::vector<Tensor *> tensors;
  auto clear = [&] {
    for (Tensor &tensor : outputs)
      tensor.allocate(tensor.hasRows() ? maxRows : tensor.shape[0]);
  };
  for (Tensor &tensor : inputs)
    tensors.push_back(&tensor);
  for (Tensor &tensor : outputs)
    tensors.push_back(&tensor);
  std::vector<Tensor> full;
  for (const char *target : {"native", "x86-64-v3"}) {
    SCOPED_TRACE(target);
    Kernel kernel(mlir, target);
    clear();
    kernel.run(tensors, 0, maxRows);
    if (testing::Test::HasFailure())
      return;
    check(maxRows, outputs);
    full = outputs;
    for (int count = 1; count <= maxRows; ++count) {
      int begin = (count * 7) % (maxRows - count + 1);
      clear();
      kernel.run(tensors, begin, count);
      for (size_t i = 0; i < outputs.size(); ++i)
        expectSlice(outputs[i], full[i], begin, count);
      if (testing::Test::HasFatalFailure())
        return;
    }
  }
  SCOPED_TRACE("aarch64");
  clear();
  if (!runForeign(mlir, tensors))
    return;
  for (size_t i = 0; i < outputs.size(); ++i) {
    unifyNans(outputs[i]);
    unifyNans(full[i]);
    expectSlice(outputs[i], full[i], 0, maxRows);
  }
}
