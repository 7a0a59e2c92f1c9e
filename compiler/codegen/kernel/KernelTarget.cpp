// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What all targets share: which kernel op a model op becomes, and how a missing kernel is said.

#include "compiler/codegen/kernel/KernelTarget.h"

#include "compiler/codegen/kernel/ContractionLoops.h"
#include "dialect/Entries.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;

FailureOr<func::FuncOp> KernelModule::once(StringRef name, function_ref<FailureOr<func::FuncOp>()> build) {
  auto known = code.lookupSymbol<func::FuncOp>(name);
  return known ? FailureOr<func::FuncOp>(known) : build();
}

LogicalResult KernelModule::addObject(StringRef name, FailureOr<std::string> object) {
  if (failed(object))
    return failure();
  halideObjects.push_back(std::move(*object));
  halideKernels.insert(name);
  return success();
}

FailureOr<Kernels> heddle::oneKernel(FailureOr<func::FuncOp> kernel) {
  if (failed(kernel))
    return failure();
  return Kernels{*kernel};
}

bool heddle::isKernelOp(Operation *op) {
  auto loops = dyn_cast<linalg::GenericOp>(op);
  return isa<KvAppendOp, KernelOpInterface>(op) || (loops && isKernelContraction(loops));
}

// The kernel op that `op` is or becomes (compiler/schedule/); empty for an op that asks for no kernel of its own.
static StringRef kernelOpOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([](AttentionOp op) {
        return keepsKeys(op) ? OnlineAttentionOp::getOperationName() : RaggedAttentionOp::getOperationName();
      })
      .Case([](LatentAttentionOp) { return OnlineLatentAttentionOp::getOperationName(); })
      .Case([](LinearOp) { return PackedMatmulOp::getOperationName(); })
      .Case([](IntegerLinearOp) { return IntegerMatmulOp::getOperationName(); })
      .Case([](MoeOp) { return ExpertMatmulOp::getOperationName(); })
      .Case([](CausalConvOp) { return RaggedConvOp::getOperationName(); })
      .Case([](LinearAttentionOp) { return RaggedLinearAttentionOp::getOperationName(); })
      .Default([](Operation *op) { return isKernelOp(op) ? op->getName().getStringRef() : StringRef(); });
}

const KernelEmitter *KernelTarget::emitterFor(Operation *op) const {
  auto entry = emitters.find(kernelOpOf(op));
  return entry == emitters.end() ? nullptr : entry->second.get();
}

bool KernelTarget::canEmit(Operation *op, std::string &missing) const {
  if (kernelOpOf(op).empty())
    return true;
  const KernelEmitter *emitter = emitterFor(op);
  std::string part;
  if (emitter && emitter->canEmit(op, part))
    return true;
  missing = ("'" + op->getName().getStringRef() + "'" + (part.empty() ? "" : " ") + part).str();
  return false;
}

std::string KernelTarget::missingKernel(ModuleOp module, Part part) const {
  std::string missing;
  module.walk([&](Operation *op) {
    bool isAsked = part == Part::All || isInGraphEntry(op) == (part == Part::Graphs);
    return !isAsked || canEmit(op, missing) ? WalkResult::advance() : WalkResult::interrupt();
  });
  return missing;
}

FailureOr<std::string> KernelTarget::signature(Operation *op) const {
  if (std::string missing; !canEmit(op, missing))
    return op->emitError("target ") << name << " has no kernel for " << missing;
  return emitterFor(op)->signature(op);
}

FailureOr<Kernels> KernelTarget::emit(Operation *op, ScheduleAttr schedule, StringRef name,
                                      KernelModule &module) const {
  return emitterFor(op)->emit(op, schedule, name, module);
}

TargetAttr heddle::targetAttr(MLIRContext *context, const CpuTarget &target) {
  auto features = llvm::map_to_vector(target.features, [&](StringRef name) { return StringAttr::get(context, name); });
  return TargetAttr::get(context, TargetDevice::Cpu, target.name, target.vectorLanes(), target.vectorRegisters(),
                         features, target.tune);
}

TargetAttr heddle::targetAttr(MLIRContext *context, const Target &target) {
  if (!target.isDevice())
    return targetAttr(context, target.cpu);
  TargetDevice device = target.device == DeviceKind::Cuda ? TargetDevice::Cuda : TargetDevice::OpenCl;
  return TargetAttr::get(context, device, target.name, 0, 0, {}, "");
}
