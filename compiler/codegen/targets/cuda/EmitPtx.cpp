// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/EmitPtx.h"

#include "compiler/codegen/targets/cuda/LowerGpuOps.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace heddle;

void heddle::registerGpuDialects(DialectRegistry &registry) {
  registry.insert<gpu::GPUDialect, NVVM::NVVMDialect, LLVM::LLVMDialect, scf::SCFDialect, arith::ArithDialect,
                  vector::VectorDialect, cf::ControlFlowDialect, HeddleDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

// Upstream's pass of this conversion would turn maxnum, exp2 and sqrt into calls of libdevice.
static LogicalResult convertToNVVM(gpu::GPUModuleOp module) {
  MLIRContext *context = module.getContext();
  LLVMTypeConverter types(context);
  configureGpuToNVVMTypeConverter(types);
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  populateVectorToLLVMConversionPatterns(types, patterns);
  populateGpuToNVVMConversionPatterns(types, patterns);
  populateGpuOpPatterns(types, patterns);
  LLVMConversionTarget target(*context);
  configureGpuToNVVMConversionLegality(target);
  target.addLegalOp<LLVM::Exp2Op, LLVM::SqrtOp>();
  return applyFullConversion(module, target, std::move(patterns));
}

LogicalResult heddle::lowerToNVVM(gpu::GPUModuleOp module) {
  PassManager pm(module.getContext(), gpu::GPUModuleOp::getOperationName());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createSCFToControlFlowPass());
  return success(succeeded(pm.run(module)) && succeeded(convertToNVVM(module)));
}

FailureOr<std::string> heddle::emitPtx(gpu::GPUModuleOp module, const GpuTarget &target, MachineCode kind) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(module, context);
  std::unique_ptr<llvm::TargetMachine> machine = target.createMachine();
  if (!llvmModule || !machine)
    return module.emitError("cannot be translated for ") << target.name;
  for (llvm::Function &function : *llvmModule) {
    function.addFnAttr("target-cpu", machine->getTargetCPU());
    function.addFnAttr("target-features", machine->getTargetFeatureString());
    // Numbers below 2^-126 become 0: exp2 is one instruction then.
    function.addFnAttr("denormal-fp-math-f32", "preserve-sign");
  }
  FailureOr<std::string> code = printMachineCode(*llvmModule, *machine, kind);
  if (failed(code))
    return module.emitError("no PTX can be emitted for ") << target.name;
  return code;
}
