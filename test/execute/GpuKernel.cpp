// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/execute/GpuKernel.h"

#include "test/execute/GpuDriver.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"

#include "gtest/gtest.h"

#include <cstring>

using namespace heddle;
using namespace heddle::test;
using namespace mlir;

GpuKernel::GpuKernel(const std::function<void(gpu::GPUModuleOp)> &build, StringRef targetName) {
  DialectRegistry registry;
  registerGpuDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  OpBuilder b(&context);
  OwningOpRef<ModuleOp> outer = ModuleOp::create(b, b.getUnknownLoc());
  b.setInsertionPointToStart(outer->getBody());
  auto kernels = gpu::GPUModuleOp::create(b, b.getUnknownLoc(), "kernels");
  build(kernels);
  std::string error;
  FailureOr<GpuTarget> target = parseGpuTarget(targetName, error);
  EXPECT_TRUE(succeeded(verify(*outer)) && succeeded(lowerToNVVM(kernels)));
  FailureOr<std::string> emitted = emitPtx(kernels, *target, MachineCode::Assembly);
  EXPECT_TRUE(succeeded(emitted));
  text = *emitted;
  module = ptx::parseModule(text);
}

static std::vector<const void *> addressesOf(llvm::ArrayRef<GpuArgument> arguments) {
  std::vector<const void *> addresses;
  for (const GpuArgument &argument : arguments)
    addresses.push_back(argument.at);
  return addresses;
}

void GpuKernel::run(const ptx::Launch &launch, llvm::ArrayRef<GpuArgument> arguments, ptx::Memory &memory,
                    ptx::WarpOrder order) const {
  const ptx::Kernel &kernel = module.kernels.begin()->second;
  if (GpuDriver *driver = GpuDriver::get())
    driver->run(text, kernel, launch, addressesOf(arguments).data(), memory);
  else
    ptx::run(kernel, launch, addressesOf(arguments).data(), memory, order);
}

std::vector<float> GpuKernel::time(const ptx::Launch &launch, llvm::ArrayRef<GpuArgument> arguments,
                                   ptx::Memory &memory, int rounds) const {
  return GpuDriver::get()->time(text, module.kernels.begin()->second, launch, addressesOf(arguments).data(), memory,
                                rounds);
}

uint16_t heddle::test::bf16BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float heddle::test::roundToBf16(float value) {
  uint32_t bits = uint32_t(bf16BitsOf(value)) << 16;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}
