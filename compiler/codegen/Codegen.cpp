// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/Codegen.h"

#include "compiler/codegen/GraphCode.h"
#include "compiler/codegen/host/HostCode.h"
#include "compiler/codegen/targets/cuda/GpuKernels.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace heddle;

static const char *entryName(ModelEntry entry) {
  return entry == ModelEntry::Graph ? "heddle_graph" : "heddle_step";
}

// Only the entry is seen by other objects of the link.
static void hideAllBut(ModuleOp code, StringRef entry) {
  for (auto func : code.getOps<LLVM::LLVMFuncOp>())
    if (func.getSymName() == entry)
      func.setVisibility_(LLVM::Visibility::Hidden);
    else if (!func.isExternal())
      func.setLinkage(LLVM::Linkage::Internal);
}

FailureOr<GeneratedCode> heddle::generateCode(ModuleOp module, const Target &target, MachineCode kind) {
  OpBuilder b(module.getContext());
  OwningOpRef<ModuleOp> code = ModuleOp::create(b, module.getLoc());
  KernelLibrary kernels(module, *code, target);
  if (failed(buildHostCode(module, *code, kernels, target)))
    return failure();
  if (GpuKernels *gpu = kernels.gpuKernels()) {
    FailureOr<std::string> text = gpu->finish(kind);
    if (failed(text))
      return failure();
    if (kind != MachineCode::Object) {
      GeneratedCode result;
      result.objects.push_back(std::move(*text));
      return result;
    }
  }
  if (failed(lowerToLLVM(*code, target.cpu)))
    return failure();
  hideAllBut(*code, "heddle_step");
  for (auto func : code->getOps<LLVM::LLVMFuncOp>()) {
    // Kernels of Halide's objects.
    if (func.isExternal())
      func.setVisibility_(LLVM::Visibility::Hidden);
    // Inlined where it is called, a layer's kernels would be one function, which takes more time and memory to compile.
    func.setNoInline(true);
  }
  FailureOr<std::string> object = emitMachineCode(*code, target.cpu, kind);
  if (failed(object))
    return failure();
  GeneratedCode result;
  result.objects.push_back(std::move(*object));
  if (kind == MachineCode::Object)
    llvm::append_range(result.objects, kernels.objects());
  for (auto &[name, record] : kernels.records())
    result.kernels.push_back(record);
  result.launches = kernels.launches().vec();
  return result;
}

FailureOr<GeneratedCode> heddle::generateGraphCode(ModuleOp module, const Target &target, MachineCode kind) {
  GeneratedCode result;
  FailureOr<OwningOpRef<ModuleOp>> code = buildGraphCode(module, target);
  if (failed(code))
    return failure();
  hideAllBut(**code, "heddle_graph");
  FailureOr<std::string> object = emitMachineCode(**code, target.cpu, kind, Loops::Vectorized);
  if (failed(object))
    return failure();
  result.entry = ModelEntry::Graph;
  result.objects.push_back(std::move(*object));
  return result;
}

// {abi_version, reserved, name, package_sha256, step, graph}, as struct heddle_model lies in memory.
static LLVM::GlobalOp modelGlobal(OpBuilder &b, Location loc, StringRef name, ArrayRef<uint8_t> sha256,
                                  ModelEntry entry) {
  MLIRContext *context = b.getContext();
  auto pointer = LLVM::LLVMPointerType::get(context);
  auto nameType = LLVM::LLVMArrayType::get(b.getI8Type(), name.size() + 1);
  LLVM::GlobalOp::create(b, loc, nameType, true, LLVM::Linkage::Internal, "heddle_name",
                         b.getStringAttr(name + StringRef("\0", 1)));
  auto hashType = LLVM::LLVMArrayType::get(b.getI8Type(), sha256.size());
  auto type =
      LLVM::LLVMStructType::getLiteral(context, {b.getI32Type(), b.getI32Type(), pointer, hashType, pointer, pointer});
  auto global = LLVM::GlobalOp::create(b, loc, type, true, LLVM::Linkage::Internal, "heddle_model_data", Attribute());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(b.createBlock(&global.getInitializerRegion()));
  auto hash = DenseElementsAttr::get(RankedTensorType::get({int64_t(sha256.size())}, b.getI8Type()),
                                     ArrayRef(reinterpret_cast<const int8_t *>(sha256.data()), sha256.size()));
  Value function = LLVM::AddressOfOp::create(b, loc, pointer, entryName(entry)),
        none = LLVM::ZeroOp::create(b, loc, pointer);
  bool isGraph = entry == ModelEntry::Graph;
  const Value fields[] = {LLVM::ConstantOp::create(b, loc, b.getI32IntegerAttr(HEDDLE_MODEL_ABI_VERSION)),
                          LLVM::ConstantOp::create(b, loc, b.getI32IntegerAttr(0)),
                          LLVM::AddressOfOp::create(b, loc, pointer, "heddle_name"),
                          LLVM::ConstantOp::create(b, loc, hashType, hash),
                          isGraph ? none : function,
                          isGraph ? function : none};
  Value model = LLVM::UndefOp::create(b, loc, type);
  for (auto [index, field] : llvm::enumerate(fields))
    model = LLVM::InsertValueOp::create(b, loc, model, field, int64_t(index));
  LLVM::ReturnOp::create(b, loc, model);
  return global;
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
                                               ModelEntry entry, const Target &target) {
  OpBuilder b(&context);
  Location loc = NameLoc::get(b.getStringAttr(name));
  OwningOpRef<ModuleOp> module = ModuleOp::create(b, loc);
  b.setInsertionPointToEnd(module->getBody());
  auto pointer = LLVM::LLVMPointerType::get(&context);
  SmallVector<Type> parameters = {pointer};
  if (entry == ModelEntry::Step)
    parameters.append(2, b.getI32Type());
  auto function = LLVM::LLVMFuncOp::create(b, loc, entryName(entry),
                                           LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(&context), parameters));
  function.setVisibility_(LLVM::Visibility::Hidden);
  modelGlobal(b, loc, name, packageSha256, entry);
  modelNote(b, loc, packageSha256);
  auto accessor =
      LLVM::LLVMFuncOp::create(b, loc, ("heddle_model_" + name).str(), LLVM::LLVMFunctionType::get(pointer, {}));
  Block *body = accessor.addEntryBlock(b);
  b.setInsertionPointToEnd(body);
  LLVM::ReturnOp::create(b, loc, LLVM::AddressOfOp::create(b, loc, pointer, "heddle_model_data"));
  return emitMachineCode(*module, target.cpu, MachineCode::Object);
}
