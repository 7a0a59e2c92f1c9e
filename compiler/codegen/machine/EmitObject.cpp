// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/machine/EmitObject.h"

#include "compiler/codegen/machine/ObjectCache.h"
#include "compiler/codegen/machine/ResidentMemory.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToFuncs/MathToFuncs.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/IPO/StripDeadPrototypes.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <algorithm>

using namespace mlir;
using namespace heddle;

void heddle::registerCodegenDialects(DialectRegistry &registry) {
  registry.insert<func::FuncDialect, scf::SCFDialect, arith::ArithDialect, math::MathDialect, vector::VectorDialect,
                  cf::ControlFlowDialect, LLVM::LLVMDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

LogicalResult heddle::lowerToLLVM(ModuleOp module, const CpuTarget &target) {
  PassManager pm(module.getContext());
  pm.enableVerifier(false); // once, of what all of them leave
  // Function by function: what one of them needs once more, the others do not.
  OpPassManager &functions = pm.nest<func::FuncOp>();
  functions.addPass(createConvertVectorToSCFPass());
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createSCFToControlFlowPass());
  ConvertVectorToLLVMPassOptions vectorOptions;
  // Sums keep the order in which the kernel states them.
  vectorOptions.reassociateFPReductions = false;
  vectorOptions.vectorTransposeLowering = vector::VectorTransposeLowering::Shuffle1D;
  functions.addPass(createConvertVectorToLLVMPass(vectorOptions));
  ConvertMathToFuncsOptions powers;
  powers.minWidthOfFPowIExponent = 1;
  pm.addPass(createConvertMathToFuncs(powers));
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return success(succeeded(pm.run(module)) && succeeded(verify(module)));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine, Loops kind) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.LoopInterleaving = kind == Loops::Vectorized;
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

FailureOr<std::string> heddle::printMachineCode(llvm::Module &module, llvm::TargetMachine &machine, MachineCode kind,
                                                Loops loops) {
  module.setDataLayout(machine.createDataLayout());
  module.setTargetTriple(machine.getTargetTriple());
  optimize(module, machine, loops);
  std::string out;
  if (kind == MachineCode::LLVMIR) {
    llvm::raw_string_ostream(out) << module;
    return out;
  }
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  auto fileType = kind == MachineCode::Object ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, fileType))
    return failure();
  passes.run(module);
  return std::string(buffer.begin(), buffer.end());
}

// `module`, which is left empty, in LLVM IR for `machine`; null, with an error, where it cannot be.
static std::unique_ptr<llvm::Module> translate(ModuleOp module, const CpuTarget &target,
                                               const llvm::TargetMachine *machine, llvm::LLVMContext &context) {
  std::unique_ptr<llvm::Module> code = machine ? translateModuleToLLVMIR(module, context) : nullptr;
  if (!code) {
    module.emitError("cannot be translated for ") << target.triple;
    return nullptr;
  }
  module.getBody()->clear(); // as large as what the optimiser works on
  for (llvm::Function &function : *code) {
    function.addFnAttr("target-cpu", machine->getTargetCPU());
    function.addFnAttr("target-features", machine->getTargetFeatureString());
    if (target.isX86() && target.hasAvx512()) {
      function.addFnAttr("prefer-vector-width", "512");
      function.addFnAttr("min-legal-vector-width", "512");
    }
  }
  return code;
}

FailureOr<std::string> heddle::emitMachineCode(ModuleOp module, const CpuTarget &target, MachineCode kind,
                                               Loops loops) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine = target.createMachine();
  std::unique_ptr<llvm::Module> code = translate(module, target, machine.get(), context);
  if (!code)
    return failure();
  FailureOr<std::string> text = printMachineCode(*code, *machine, kind, loops);
  if (failed(text))
    return module.emitError("no machine code can be emitted for ") << target.triple;
  return text;
}

// Names that other parts may call or read. Small constants stay internal: each part has those it reads. A device's code is a large one, which
// a driver compiles once for each place that it lies at.
static void externalize(llvm::Module &code, StringRef prefix) {
  constexpr uint64_t mostRepeated = 1024; // bytes
  for (llvm::GlobalObject &global : code.global_objects()) {
    auto *variable = dyn_cast<llvm::GlobalVariable>(&global);
    bool isRepeated = variable && variable->isConstant() &&
                      code.getDataLayout().getTypeAllocSize(variable->getValueType()) <= mostRepeated;
    if (!global.hasLocalLinkage() || isRepeated)
      continue;
    global.setName(prefix + global.getName());
    global.setLinkage(llvm::GlobalValue::ExternalLinkage);
    global.setVisibility(llvm::GlobalValue::HiddenVisibility);
  }
}

// The functions of each part. A large one is a part of its own, which another module may have as well (ObjectCache.h); the others go, the largest
// first, to one of the rest that has least. Variables are the last part's.
static std::vector<DenseSet<const llvm::GlobalValue *>> divide(llvm::Module &code) {
  // More parts, or large functions, would repeat more often what each part costs by itself: some milliseconds.
  constexpr size_t maxShared = 8, largeFunction = 400; // instructions
  std::vector<std::pair<size_t, llvm::Function *>> functions;
  for (llvm::Function &function : code)
    if (!function.isDeclaration())
      functions.push_back({function.getInstructionCount(), &function});
  llvm::stable_sort(functions, [](const auto &a, const auto &b) { return a.first > b.first; });
  size_t large =
      llvm::partition_point(functions, [](const auto &f) { return f.first >= largeFunction; }) - functions.begin();
  std::vector<DenseSet<const llvm::GlobalValue *>> parts(large);
  for (size_t i = 0; i < large; ++i)
    parts[i].insert(functions[i].second);
  parts.resize(large + std::clamp<size_t>(functions.size() - large, 1, maxShared));
  std::vector<size_t> sizes(parts.size() - large);
  for (auto [size, function] : ArrayRef(functions).drop_front(large)) {
    size_t least = llvm::min_element(sizes) - sizes.begin();
    parts[large + least].insert(function);
    sizes[least] += size;
  }
  for (llvm::GlobalVariable &variable : code.globals())
    parts.back().insert(&variable);
  return parts;
}

// A part of a module, with what it reads and nothing else: what others read would be in its key.
static SmallVector<char, 0> bitcodeOf(const llvm::Module &code, const DenseSet<const llvm::GlobalValue *> &part) {
  llvm::ValueToValueMapTy values;
  std::unique_ptr<llvm::Module> copy = llvm::CloneModule(
      code, values, [&](const llvm::GlobalValue *value) { return value->hasLocalLinkage() || part.contains(value); });
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder().registerModuleAnalyses(modules);
  llvm::GlobalDCEPass().run(*copy, modules);
  llvm::StripDeadPrototypesPass().run(*copy, modules);
  SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::WriteBitcodeToFile(*copy, stream);
  return bytes;
}

FailureOr<std::vector<std::string>> heddle::emitObjects(ModuleOp module, const CpuTarget &target, StringRef prefix,
                                                        Loops loops) {
  // A context serves one thread, as a machine does: parts travel as bitcode.
  std::vector<SmallVector<char, 0>> bitcode;
  {
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> code = translate(module, target, target.createMachine().get(), context);
    if (!code)
      return failure();
    externalize(*code, prefix);
    for (const DenseSet<const llvm::GlobalValue *> &part : divide(*code))
      bitcode.push_back(bitcodeOf(*code, part));
  }
  ObjectCache cache(target, loops);
  std::vector<std::string> objects(bitcode.size());
  auto emit = [&](size_t part) {
    StringRef bytes(bitcode[part].data(), bitcode[part].size());
    FailureOr<std::string> object = cache.objectOf(bytes, [&]() -> FailureOr<std::string> {
      llvm::LLVMContext context;
      llvm::Expected<std::unique_ptr<llvm::Module>> code = llvm::parseBitcodeFile({bytes, "part"}, context);
      if (code)
        return printMachineCode(**code, *target.createMachine(), MachineCode::Object, loops);
      llvm::consumeError(code.takeError());
      return failure();
    });
    if (succeeded(object))
      objects[part] = std::move(*object);
  };
  releaseUnusedMemory(); // of MLIR's; threads allocate elsewhere than what was freed
  llvm::DefaultThreadPool threads(llvm::heavyweight_hardware_concurrency(bitcode.size()));
  for (size_t part = 0; part < bitcode.size(); ++part)
    threads.async(emit, part);
  threads.wait();
  if (llvm::is_contained(objects, ""))
    return module.emitError("no machine code can be emitted for ") << target.triple;
  return objects;
}
