// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/Codegen.h"

#include "compiler/codegen/host/GraphCode.h"
#include "compiler/codegen/host/StepCode.h"
#include "compiler/codegen/targets/cuda/GpuKernels.h"
#include "dialect/Entries.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace heddle;

static constexpr llvm::StringLiteral stepName = "heddle_step", encodeName = "heddle_encode";

static std::string graphName(unsigned index) {
  return "heddle_graph_" + std::to_string(index);
}

namespace {

// Kernels for one target, with the step that launches them, if it has one.
struct TargetCode {
  TargetCode(ModuleOp module, const Target &target, StringRef prefix, unsigned kernelsBefore)
      : target(target), prefix(prefix), code(ModuleOp::create(module.getLoc())),
        kernels(module, *code, this->target, kernelsBefore) {}

  const Target target;
  const StringRef prefix; // of names in it that other objects see, where another target's may be the same
  OwningOpRef<ModuleOp> code;
  KernelLibrary kernels;
};

// The code of one model: a module of kernels, with the step that launches them, and one for each graph, which LLVM's vectoriser may
// see, since its loops are plain. A kernel is emitted once, whichever entries launch it. Graphs beside the step of a device have kernels of their own,
// for the processor.
class ModelCode {
public:
  ModelCode(ModuleOp module, const Target &target, MachineCode kind, GeneratedCode &result)
      : module(module), own(module, target, "", 0), kind(kind), result(result) {}
  LogicalResult run();

private:
  LogicalResult addObjects(ModuleOp code, const Target &target, StringRef prefix, Loops loops);
  LogicalResult emitKernels(TargetCode &of, OwningOpRef<ModuleOp> step);
  LogicalResult emitGraph(ModuleOp graph, StringRef entry, const TargetCode &of);
  LogicalResult emitGraphs(TargetCode &of);

  ModuleOp module;
  TargetCode own;
  MachineCode kind;
  GeneratedCode &result;
};

} // namespace

LogicalResult ModelCode::addObjects(ModuleOp code, const Target &target, StringRef prefix, Loops loops) {
  if (kind == MachineCode::Object) {
    FailureOr<std::vector<std::string>> objects = emitObjects(code, target.cpu, prefix, loops);
    if (succeeded(objects))
      llvm::append_range(result.objects, std::move(*objects));
    return objects;
  }
  FailureOr<std::string> text = emitMachineCode(code, target.cpu, kind, loops);
  if (succeeded(text))
    result.objects.push_back(std::move(*text));
  return text;
}

// Other objects of the link see the step and what graphs call.
LogicalResult ModelCode::emitKernels(TargetCode &of, OwningOpRef<ModuleOp> step) {
  OwningOpRef<ModuleOp> &code = of.code;
  KernelLibrary &kernels = of.kernels;
  if (!step && code->getBody()->empty())
    return success();
  if (failed(lowerToLLVM(*code, of.target.cpu)))
    return failure();
  if (step)
    for (Operation &op : llvm::make_early_inc_range(*step->getBody())) {
      auto func = dyn_cast<LLVM::LLVMFuncOp>(op);
      if (!func || !func.isExternal()) // what it declares is here
        op.moveBefore(code->getBody(), code->getBody()->end());
    }
  for (auto func : code->getOps<LLVM::LLVMFuncOp>()) {
    // Kernels of Halide's objects are external.
    if (func.isExternal() || kernels.isEntry(func.getSymName()))
      func.setVisibility_(LLVM::Visibility::Hidden);
    else
      func.setLinkage(LLVM::Linkage::Internal);
    // Inlined where it is called, a layer's kernels would be one function, which takes more time and memory to compile.
    func.setNoInline(true);
  }
  return addObjects(*code, of.target, of.prefix, Loops::AsWritten);
}

// Functions of the C library keep the visibility that they have.
LogicalResult ModelCode::emitGraph(ModuleOp graph, StringRef entry, const TargetCode &of) {
  for (auto func : graph.getOps<LLVM::LLVMFuncOp>())
    if (func.getSymName() == entry || of.kernels.isEntry(func.getSymName()))
      func.setVisibility_(LLVM::Visibility::Hidden);
    else if (!func.isExternal())
      func.setLinkage(LLVM::Linkage::Internal);
  return addObjects(graph, of.target, (entry + ".").str(), Loops::Vectorized);
}

// One after the other, so that the modules of two graphs are not in memory together.
LogicalResult ModelCode::emitGraphs(TargetCode &of) {
  for (func::FuncOp graph : graphEntries(module)) {
    std::string entry = graphName(result.entries.numGraphs++);
    FailureOr<OwningOpRef<ModuleOp>> lowered = buildGraphCode(graph, entry, of.kernels, of.target);
    if (failed(lowered) || failed(emitGraph(**lowered, entry, of)))
      return failure();
  }
  return success();
}

LogicalResult ModelCode::run() {
  ModelEntries &entries = result.entries;
  for (func::FuncOp entry : raggedEntries(module))
    (entry.getSymName() == "step" ? entries.hasStep : entries.hasEncode) = true;
  OwningOpRef<ModuleOp> step;
  if (entries.hasStep || entries.hasEncode) {
    FailureOr<OwningOpRef<ModuleOp>> lowered = buildStepCode(module, own.kernels, own.target);
    if (failed(lowered))
      return failure();
    step = std::move(*lowered);
  }
  std::optional<TargetCode> ofGraphs; // where it is not the step's
  if (own.target.isDevice() && !graphEntries(module).empty())
    ofGraphs.emplace(module, graphTargetOf(own.target), "graphs.", unsigned(own.kernels.records().size()));
  if (failed(emitGraphs(ofGraphs ? *ofGraphs : own)))
    return failure();
  if (GpuKernels *gpu = own.kernels.gpuKernels()) {
    FailureOr<std::string> text = gpu->finish(kind);
    if (failed(text))
      return failure();
    if (kind != MachineCode::Object) {
      result.objects = {std::move(*text)};
      return success();
    }
  }
  // Kernels last, when all have been asked for.
  if (failed(emitKernels(own, std::move(step))) || (ofGraphs && failed(emitKernels(*ofGraphs, {}))))
    return failure();
  for (const TargetCode *each : {&own, ofGraphs ? &*ofGraphs : nullptr}) {
    if (!each)
      continue;
    if (kind == MachineCode::Object)
      llvm::append_range(result.objects, each->kernels.objects());
    for (auto &[name, record] : each->kernels.records())
      result.kernels.push_back(record);
  }
  result.launches = own.kernels.launches().vec();
  return success();
}

FailureOr<GeneratedCode> heddle::generateCode(ModuleOp module, const Target &target, MachineCode kind) {
  GeneratedCode result;
  if (failed(ModelCode(module, target, kind, result).run()))
    return failure();
  return result;
}

// A function of `entries` that other objects of the link define.
static void declareEntry(OpBuilder &b, Location loc, StringRef name, unsigned threadParameters) {
  SmallVector<Type> parameters = {LLVM::LLVMPointerType::get(b.getContext())};
  parameters.append(threadParameters, b.getI32Type());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), parameters);
  LLVM::LLVMFuncOp::create(b, loc, name, type).setVisibility_(LLVM::Visibility::Hidden);
}

// A constant made by `build`: one that lies in this object alone, or that other objects of the link see.
static void addConstant(OpBuilder &b, Location loc, Type type, StringRef name, function_ref<Value()> build,
                        bool isSeen = false) {
  auto linkage = isSeen ? LLVM::Linkage::External : LLVM::Linkage::Internal;
  auto global = LLVM::GlobalOp::create(b, loc, type, true, linkage, name, Attribute());
  if (isSeen)
    global.setVisibility_(LLVM::Visibility::Hidden);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(b.createBlock(&global.getInitializerRegion()));
  LLVM::ReturnOp::create(b, loc, build());
}

static Value aggregate(OpBuilder &b, Location loc, Type type, ArrayRef<Value> fields) {
  Value value = LLVM::UndefOp::create(b, loc, type);
  for (auto [index, field] : llvm::enumerate(fields))
    value = LLVM::InsertValueOp::create(b, loc, value, field, int64_t(index));
  return value;
}

// The addresses of `symbols`, as the constant `name`; nothing without symbols.
static void addAddresses(OpBuilder &b, Location loc, StringRef name, ArrayRef<std::string> symbols) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type = LLVM::LLVMArrayType::get(pointer, symbols.size());
  if (symbols.empty())
    return;
  addConstant(b, loc, type, name, [&] {
    SmallVector<Value> addresses;
    for (const std::string &symbol : symbols)
      addresses.push_back(LLVM::AddressOfOp::create(b, loc, pointer, symbol));
    return aggregate(b, loc, type, addresses);
  });
}

namespace {

// What a heddle_model says.
struct ModelFacts {
  StringRef name;
  ArrayRef<uint8_t> packageSha256;
  const ModelEntries &entries;
  ArrayRef<std::string> variants; // symbols
};

} // namespace

// {abi_version, num_graphs, name, package_sha256, step, encode, graphs, variants}, as struct heddle_model lies in memory, and what it refers to.
static void modelGlobal(OpBuilder &b, Location loc, StringRef symbol, const ModelFacts &facts, bool isSeen) {
  MLIRContext *context = b.getContext();
  const ModelEntries &entries = facts.entries;
  auto pointer = LLVM::LLVMPointerType::get(context);
  if (entries.hasStep)
    declareEntry(b, loc, stepName, /*threadParameters=*/2);
  if (entries.hasEncode)
    declareEntry(b, loc, encodeName, /*threadParameters=*/2);
  std::vector<std::string> graphs;
  for (unsigned i = 0; i < entries.numGraphs; ++i) {
    graphs.push_back(graphName(i));
    declareEntry(b, loc, graphs.back(), /*threadParameters=*/0);
  }
  auto nameType = LLVM::LLVMArrayType::get(b.getI8Type(), facts.name.size() + 1);
  LLVM::GlobalOp::create(b, loc, nameType, true, LLVM::Linkage::Internal, "heddle_name",
                         b.getStringAttr(facts.name + StringRef("\0", 1)));
  addAddresses(b, loc, "heddle_graphs", graphs);
  auto hashType = LLVM::LLVMArrayType::get(b.getI8Type(), facts.packageSha256.size());
  auto type = LLVM::LLVMStructType::getLiteral(
      context, {b.getI32Type(), b.getI32Type(), pointer, hashType, pointer, pointer, pointer, pointer});
  for (const std::string &variant : facts.variants)
    LLVM::GlobalOp::create(b, loc, type, true, LLVM::Linkage::External, variant, Attribute())
        .setVisibility_(LLVM::Visibility::Hidden);
  addAddresses(b, loc, "heddle_variants", facts.variants);
  auto build = [&]() -> Value {
    auto hash = DenseElementsAttr::get(
        RankedTensorType::get({int64_t(facts.packageSha256.size())}, b.getI8Type()),
        ArrayRef(reinterpret_cast<const int8_t *>(facts.packageSha256.data()), facts.packageSha256.size()));
    auto number = [&](uint32_t value) -> Value { return LLVM::ConstantOp::create(b, loc, b.getI32IntegerAttr(value)); };
    auto address = [&](bool isThere, StringRef symbol) -> Value {
      if (!isThere)
        return LLVM::ZeroOp::create(b, loc, pointer);
      return LLVM::AddressOfOp::create(b, loc, pointer, symbol);
    };
    return aggregate(b, loc, type,
                     {number(HEDDLE_MODEL_ABI_VERSION), number(entries.numGraphs), address(true, "heddle_name"),
                      LLVM::ConstantOp::create(b, loc, hashType, hash), address(entries.hasStep, stepName),
                      address(entries.hasEncode, encodeName), address(entries.numGraphs, "heddle_graphs"),
                      address(!facts.variants.empty(), "heddle_variants")});
  };
  addConstant(b, loc, type, symbol, build, isSeen);
}

// Header (sizes of name and hash, type), name, hash: each part a multiple of 8 bytes, so that the note shares no program header
// with those of C's start files, which are aligned to 4.
static void modelNote(OpBuilder &b, Location loc, ArrayRef<uint8_t> sha256) {
  const StringRef owner("Heddle", 7);
  const uint32_t header[] = {uint32_t(owner.size()), uint32_t(sha256.size()), /*type=*/1};
  std::string note(reinterpret_cast<const char *>(header), sizeof(header));
  note += owner;
  note.resize(llvm::alignTo<8>(note.size()));
  note.append(reinterpret_cast<const char *>(sha256.data()), sha256.size());
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), note.size());
  auto global = LLVM::GlobalOp::create(b, loc, type, true, LLVM::Linkage::External, "heddle_model_note",
                                       b.getStringAttr(note), 8);
  global.setVisibility_(LLVM::Visibility::Hidden);
  global.setSection(modelNoteSection);
}

FailureOr<std::string> heddle::emitModelObject(MLIRContext &context, StringRef name, ArrayRef<uint8_t> packageSha256,
                                               const ModelEntries &entries, const Target &target,
                                               ArrayRef<std::string> variants) {
  OpBuilder b(&context);
  Location loc = NameLoc::get(b.getStringAttr(name));
  OwningOpRef<ModuleOp> module = ModuleOp::create(b, loc);
  b.setInsertionPointToEnd(module->getBody());
  auto pointer = LLVM::LLVMPointerType::get(&context);
  modelGlobal(b, loc, "heddle_model_data", {name, packageSha256, entries, variants}, /*isSeen=*/false);
  modelNote(b, loc, packageSha256);
  auto accessor =
      LLVM::LLVMFuncOp::create(b, loc, ("heddle_model_" + name).str(), LLVM::LLVMFunctionType::get(pointer, {}));
  Block *body = accessor.addEntryBlock(b);
  b.setInsertionPointToEnd(body);
  LLVM::ReturnOp::create(b, loc, LLVM::AddressOfOp::create(b, loc, pointer, "heddle_model_data"));
  return emitMachineCode(*module, target.cpu, MachineCode::Object);
}

FailureOr<std::string> heddle::emitVariantObject(MLIRContext &context, StringRef symbol, StringRef name,
                                                 ArrayRef<uint8_t> packageSha256, const ModelEntries &entries,
                                                 const Target &target) {
  OpBuilder b(&context);
  Location loc = NameLoc::get(b.getStringAttr(name));
  OwningOpRef<ModuleOp> module = ModuleOp::create(b, loc);
  b.setInsertionPointToEnd(module->getBody());
  modelGlobal(b, loc, symbol, {name, packageSha256, entries, {}}, /*isSeen=*/true);
  return emitMachineCode(*module, target.cpu, MachineCode::Object);
}
