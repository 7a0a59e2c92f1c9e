// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/GpuKernels.h"

#include "compiler/codegen/targets/cuda/EmitPtx.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

static constexpr char ptxName[] = "heddle_ptx";

static void defineText(ModuleOp code, StringRef name, StringRef text) {
  OpBuilder b(code.getContext());
  b.setInsertionPointToStart(code.getBody());
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), text.size() + 1);
  LLVM::GlobalOp::create(b, code.getLoc(), type, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                         b.getStringAttr(text + StringRef("\0", 1)));
}

Value LaunchBuilder::narrow(Value value) {
  return arith::TruncIOp::create(b, b.getI32Type(), value);
}

Value LaunchBuilder::entry(StringRef kernel) {
  std::string name = (kernel + "_entry").str();
  if (!code.lookupSymbol(name))
    defineText(code, name, kernel);
  return LLVM::AddressOfOp::create(b, b.pointerType(), name);
}

void LaunchBuilder::launch(Value entry, ArrayRef<Value> blocks, Value threads, Value sharedBytes) {
  auto scratch = [&](int64_t bytes) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.front());
    return b.stackScratch(bytes);
  };
  Value launch = scratch(sizeof(heddle_launch)), values = scratch(8 * arguments.size());
  Value places = scratch(8 * arguments.size()), sizes = scratch(8 * arguments.size());
  for (auto [index, value] : llvm::enumerate(arguments)) {
    bool isAddress = isa<LLVM::LLVMPointerType>(value.getType());
    b.store(value, b.at(values, 8 * index));
    b.store(b.at(values, 8 * index), b.at(places, 8 * index));
    b.store(b.constant(isAddress ? 0 : value.getType().getIntOrFloatBitWidth() / 8), b.at(sizes, 8 * index));
  }
  auto i32 = [&](int64_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)).getResult(); };
  b.store(LLVM::AddressOfOp::create(b, b.pointerType(), ptxName), b.at(launch, offsetof(heddle_launch, code)));
  b.store(entry, b.at(launch, offsetof(heddle_launch, entry)));
  for (size_t axis = 0; axis < 3; ++axis) {
    b.store(narrow(blocks[axis]), b.at(launch, offsetof(heddle_launch, blocks) + 4 * axis));
    b.store(axis ? i32(1) : narrow(threads), b.at(launch, offsetof(heddle_launch, threads) + 4 * axis));
  }
  b.store(sharedBytes ? narrow(sharedBytes) : i32(0), b.at(launch, offsetof(heddle_launch, shared_bytes)));
  b.store(i32(arguments.size()), b.at(launch, offsetof(heddle_launch, num_arguments)));
  b.store(places, b.at(launch, offsetof(heddle_launch, arguments)));
  b.store(sizes, b.at(launch, offsetof(heddle_launch, argument_sizes)));
  Value device = pointer(offsetof(heddle_step, device));
  Value function = b.load(b.pointerType(), b.at(device, offsetof(heddle_device, launch)));
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {b.pointerType(), b.pointerType()});
  LLVM::CallOp::create(b, type, ValueRange{function, device, launch});
  arguments.clear();
}

GpuKernels::GpuKernels(ModuleOp code, const GpuTarget &target) : code(code), target(target) {
  OpBuilder b(code.getContext());
  module = ModuleOp::create(b, code.getLoc());
  b.setInsertionPointToStart(module->getBody());
  kernels = gpu::GPUModuleOp::create(b, code.getLoc(), "kernels");
}

FailureOr<std::string> GpuKernels::finish(MachineCode kind) {
  if (failed(lowerToNVVM(kernels)))
    return failure();
  FailureOr<std::string> text = emitPtx(kernels, target, kind == MachineCode::LLVMIR ? kind : MachineCode::Assembly);
  if (succeeded(text))
    defineText(code, ptxName, *text);
  return text;
}

void GpuKernels::show(ModuleOp shown) {
  OpBuilder b(shown.getContext());
  b.setInsertionPointToStart(shown.getBody());
  LLVM::GlobalOp::create(b, shown.getLoc(), b.getI8Type(), /*isConstant=*/true, LLVM::Linkage::External, ptxName,
                         Attribute());
  kernels->moveBefore(shown.getBody(), shown.getBody()->end());
}
