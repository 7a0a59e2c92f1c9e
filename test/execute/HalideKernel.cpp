// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/execute/HalideKernel.h"

#include "compiler/codegen/halide/HalideEmitter.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "gtest/gtest.h"

#include <chrono>
#include <cstdio>
#include <dlfcn.h>

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

std::string heddle::test::emitObject(const std::string &mlir, const std::string &targetName, std::string &error) {
  mlir::DialectRegistry registry;
  registry.insert<HeddleDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect, mlir::math::MathDialect,
                  mlir::tensor::TensorDialect, mlir::linalg::LinalgDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) { error += diagnostic.str() + "\n"; });
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(mlir, &context);
  auto target = parseCpuTarget(targetName, error);
  if (!module || mlir::failed(target))
    return "";
  auto kernel = *module->getOps<mlir::func::FuncOp>().begin();
  auto start = std::chrono::steady_clock::now();
  mlir::FailureOr<std::string> object = emitHalideKernel(kernel, *target, "kernel");
  auto ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  std::printf("  %s for %s: %.0f ms\n", kernel.getName().str().c_str(), targetName.c_str(), ms);
  return mlir::succeeded(object) ? *object : "";
}

Kernel::Kernel(const std::string &mlir, const std::string &target) {
  std::string error, object = emitObject(mlir, target, error);
  EXPECT_FALSE(object.empty()) << error;
  if (object.empty())
    return;
  llvm::SmallString<128> objectPath, libraryPath;
  int fd = -1;
  bool opened = !llvm::sys::fs::createTemporaryFile("kernel", "o", fd, objectPath) &&
                !llvm::sys::fs::createTemporaryFile("kernel", "so", libraryPath);
  auto linker = llvm::sys::findProgramByName("ld.lld-22");
  EXPECT_TRUE(opened && linker) << "ld.lld-22 is needed, and a folder for temporary files";
  if (!opened || !linker)
    return;
  llvm::raw_fd_ostream(fd, /*shouldClose=*/true) << object;
  int status = llvm::sys::ExecuteAndWait(*linker, {*linker, "-shared", "-o", libraryPath, objectPath});
  EXPECT_EQ(status, 0);
  library = dlopen(libraryPath.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  symbol = library ? dlsym(library, "kernel") : nullptr;
  llvm::sys::fs::remove(objectPath);
  llvm::sys::fs::remove(libraryPath);
}

Kernel::~Kernel() {
  if (library)
    dlclose(library);
}

// Calls a function of n buffers.
static int callBuffers(void *function, std::vector<halide_buffer_t> &b) {
  using P = halide_buffer_t *;
  switch (b.size()) {
  case 2: return reinterpret_cast<int (*)(P, P)>(function)(&b[0], &b[1]);
  case 3: return reinterpret_cast<int (*)(P, P, P)>(function)(&b[0], &b[1], &b[2]);
  case 4: return reinterpret_cast<int (*)(P, P, P, P)>(function)(&b[0], &b[1], &b[2], &b[3]);
  case 5: return reinterpret_cast<int (*)(P, P, P, P, P)>(function)(&b[0], &b[1], &b[2], &b[3], &b[4]);
  case 6: return reinterpret_cast<int (*)(P, P, P, P, P, P)>(function)(&b[0], &b[1], &b[2], &b[3], &b[4], &b[5]);
  case 7: return reinterpret_cast<int (*)(P, P, P, P, P, P, P)>(function)(&b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6]);
  }
  ADD_FAILURE() << "no call for " << b.size() << " buffers";
  return 1;
}

void Kernel::run(std::vector<Tensor *> tensors, int begin, int count) const {
  ASSERT_NE(symbol, nullptr);
  std::vector<halide_buffer_t> buffers(tensors.size());
  std::vector<std::vector<halide_dimension_t>> dims(tensors.size());
  for (size_t t = 0; t < tensors.size(); ++t) {
    Tensor &tensor = *tensors[t];
    int stride = 1;
    for (size_t d = tensor.shape.size(); d-- > 1; stride *= tensor.shape[d])
      dims[t].push_back({0, tensor.shape[d], stride});
    dims[t].push_back({0, tensor.hasRows() ? count : tensor.shape[0], tensor.shape.size() == 1 ? 1 : tensor.rowStride});
    buffers[t] = {};
    buffers[t].host = tensor.data<uint8_t>() + (tensor.hasRows() ? size_t(begin) * tensor.rowStride * tensor.elementBytes() : 0);
    buffers[t].type = tensor.type;
    buffers[t].dimensions = int(dims[t].size());
    buffers[t].dim = dims[t].data();
  }
  EXPECT_EQ(callBuffers(symbol, buffers), 0);
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
        << "rows " << begin << " + " << count << ": row " << row << ", column " << column << (inside ? "" : " (canary)");
  }
}

void heddle::test::checkKernel(const std::string &mlir, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                               const std::function<void(int, std::vector<Tensor> &)> &check) {
  constexpr int maxRows = 2 * 16 + 1;
  for (const char *target : {"native", "x86-64-v3"}) {
    SCOPED_TRACE(target);
    Kernel kernel(mlir, target);
    auto run = [&](int begin, int count) {
      std::vector<Tensor *> tensors;
      for (Tensor &tensor : inputs)
        tensors.push_back(&tensor);
      for (Tensor &tensor : outputs) {
        tensor.allocate(tensor.hasRows() ? maxRows : tensor.shape[0]);
        tensors.push_back(&tensor);
      }
      kernel.run(tensors, begin, count);
    };
    run(0, maxRows);
    if (testing::Test::HasFailure())
      return;
    check(maxRows, outputs);
    std::vector<Tensor> full = outputs;
    for (int count = 1; count <= maxRows; ++count) {
      int begin = (count * 7) % (maxRows - count + 1);
      run(begin, count);
      for (size_t i = 0; i < outputs.size(); ++i)
        expectSlice(outputs[i], full[i], begin, count);
      if (testing::Test::HasFatalFailure())
        return;
    }
  }
}
