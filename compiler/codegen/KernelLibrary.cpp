// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/KernelLibrary.h"

#include "compiler/codegen/cpu/AttentionKernel.h"
#include "compiler/codegen/cpu/CacheKernel.h"
#include "compiler/codegen/cpu/EmbeddingKernel.h"
#include "compiler/codegen/cpu/MatmulKernel.h"
#include "compiler/codegen/cpu/MoeKernels.h"
#include "compiler/codegen/halide/HalideEmitter.h"

#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace heddle;

static FailureOr<PackedLayout> layoutOf(Operation *op, StringRef format) {
  std::optional<heddle::TensorType> type = tensorTypeNamed(format);
  if (std::optional<PackedLayout> layout = type ? layoutFor(*type) : std::nullopt)
    return *layout;
  return op->emitError("no packed layout holds weights of type '") << format << "'";
}

static KvType kvTypeOf(KvCacheType cache) {
  return cache.getElementType().isF32() ? KvType::F32 : cache.getElementType().isBF16() ? KvType::BF16 : KvType::F16;
}

FailureOr<func::FuncOp> KernelLibrary::once(const std::string &name, function_ref<FailureOr<func::FuncOp>(StringRef)> build) {
  if (auto known = code.lookupSymbol<func::FuncOp>(name))
    return known;
  return build(name);
}

// What `packed_matmul` and `expert_matmul` have in common.
template <typename Op> static FailureOr<MatmulSpec> productSpec(Op op) {
  FailureOr<PackedLayout> layout = layoutOf(op, op.getFormat());
  if (failed(layout))
    return failure();
  MatmulSpec spec;
  spec.layout = *layout;
  spec.n = op.getN();
  spec.k = op.getK();
  spec.activation = op.getInputScales() ? MatmulActivation::Q8 : MatmulActivation::F32;
  return spec;
}

FailureOr<func::FuncOp> KernelLibrary::matmul(PackedMatmulOp op) {
  FailureOr<MatmulSpec> product = productSpec(op);
  if (failed(product))
    return failure();
  MatmulSpec spec = *product;
  spec.hasBias = bool(op.getBias());
  spec.accumulate = op.getAccumulate();
  std::string name = llvm::formatv("matmul_{0}_n{1}_k{2}{3}{4}{5}", op.getFormat(), spec.n, spec.k, op.getInputScales() ? "_int8" : "",
                                   spec.hasBias ? "_bias" : "", spec.accumulate ? "_add" : "");
  return once(name, [&](StringRef name) { return buildMatmul(code, name, spec, target); });
}

static MoeRouteSpec routeSpec(RouteExpertsOp op) {
  return {int64_t(op.getNumExperts()), int64_t(op.getTopK()), op.getNormalize()};
}

FailureOr<func::FuncOp> KernelLibrary::routeExperts(RouteExpertsOp op) {
  std::string name = llvm::formatv("route_e{0}_k{1}{2}", op.getNumExperts(), op.getTopK(), op.getNormalize() ? "_normalize" : "");
  return once(name, [&](StringRef name) { return buildMoeRoute(code, name, routeSpec(op)); });
}

FailureOr<func::FuncOp> KernelLibrary::groupByExpert(RouteExpertsOp op) {
  std::string name = llvm::formatv("group_e{0}_k{1}", op.getNumExperts(), op.getTopK());
  return once(name, [&](StringRef name) { return buildMoeGroup(code, name, routeSpec(op)); });
}

int64_t KernelLibrary::expertBytes(ExpertMatmulOp op) {
  return cast<ShapedType>(op.getWeights().getType()).getNumElements() / int64_t(op.getNumExperts());
}

FailureOr<func::FuncOp> KernelLibrary::expertMatmul(ExpertMatmulOp op) {
  FailureOr<MatmulSpec> product = productSpec(op);
  if (failed(product))
    return failure();
  MatmulSpec spec = *product;
  spec.rows = op.getActivation() ? MatmulRows::Gathered : MatmulRows::Scattered;
  if (op.getActivation() == ActivationKind::Silu)
    spec.epilogue = MatmulEpilogue::GatedSilu;
  else if (op.getActivation() == ActivationKind::GeluTanh)
    spec.epilogue = MatmulEpilogue::GatedGeluTanh;
  else if (op.getActivation())
    return op.emitError("no kernel computes experts gated by ") << stringifyActivationKind(*op.getActivation());
  int64_t bytes = (op.getActivation() ? 2 : 1) * spec.layout.bytes(spec.n, spec.k);
  if (expertBytes(op) != bytes)
    return op.emitError("an expert's weights take ") << expertBytes(op) << " bytes, their layout " << bytes;
  std::string activation = op.getActivation() ? ("_" + stringifyActivationKind(*op.getActivation())).str() : "";
  std::string name = llvm::formatv("experts_{0}_n{1}_k{2}{3}{4}", op.getFormat(), spec.n, spec.k, op.getInputScales() ? "_int8" : "",
                                   activation);
  return once(name, [&](StringRef name) { return buildMatmul(code, name, spec, target); });
}

// What tells the attention kernels of a model apart. Scale and cap by their bits: two layers that differ in them are two kernels.
static std::string attentionName(StringRef prefix, const AttentionSpec &spec) {
  return llvm::formatv("{0}_h{1}_kv{2}_d{3}_w{4}_s{5}_c{6}{7}{8}{9}", prefix, spec.numHeads, spec.numKvHeads, spec.headDim, spec.window,
                       llvm::utohexstr(llvm::bit_cast<uint64_t>(spec.scale)), llvm::utohexstr(llvm::bit_cast<uint64_t>(spec.softcap)),
                       spec.causal ? "" : "_full", spec.hasSinks ? "_sinks" : "", spec.shareKvHeads ? "" : "_unshared");
}

// The part that attention and the merge of its splits have in common.
static AttentionSpec attentionSpec(KvCacheType cache, int64_t numHeads, MaskAttr mask, bool hasSinks) {
  AttentionSpec spec;
  spec.numHeads = numHeads;
  spec.numKvHeads = cache.getNumKvHeads();
  spec.headDim = cache.getHeadDim();
  spec.window = mask.getWindow();
  spec.causal = mask.getCausal();
  spec.kv = kvTypeOf(cache);
  spec.hasSinks = hasSinks;
  return spec;
}

static LogicalResult verifySplit(Operation *op, std::optional<uint64_t> splitKv) {
  if (!splitKv || *splitKv == attentionSplitTokens)
    return success();
  return op->emitError("no kernel splits the keys every ") << *splitKv << " tokens, only every " << attentionSplitTokens;
}

FailureOr<func::FuncOp> KernelLibrary::attention(OnlineAttentionOp op) {
  AttentionSpec spec = attentionSpec(op.getCache().getType(), op.getNumHeads(), op.getMask(), bool(op.getSinks()));
  spec.scale = op.getScale().convertToDouble();
  spec.softcap = op.getSoftcap().convertToDouble();
  spec.shareKvHeads = op.getShareKv();
  std::string error;
  if (failed(verifyAttention(spec, error)))
    return op.emitError(error);
  if (failed(verifySplit(op, op.getSplitKv())))
    return failure();
  return once(attentionName(op.getSplitKv() ? "attention_split" : "attention", spec), [&](StringRef name) {
    return op.getSplitKv() ? buildAttentionSplit(code, name, spec, target) : buildAttention(code, name, spec, target);
  });
}

FailureOr<func::FuncOp> KernelLibrary::combineSplits(CombineSplitsOp op) {
  if (failed(verifySplit(op, op.getSplitKv())))
    return failure();
  AttentionSpec spec = attentionSpec(op.getCache().getType(), op.getNumHeads(), op.getMask(), bool(op.getSinks()));
  return once(attentionName("combine_splits", spec), [&](StringRef name) { return buildCombineSplits(code, name, spec, target); });
}

FailureOr<func::FuncOp> KernelLibrary::kvAppend(KvAppendOp op) {
  KvCacheType cache = op.getCache().getType();
  KvAppendSpec spec;
  spec.numKvHeads = cache.getNumKvHeads();
  spec.headDim = cache.getHeadDim();
  spec.kv = kvTypeOf(cache);
  return once("kv_append", [&](StringRef name) { return buildKvAppend(code, name, spec, target); });
}

FailureOr<func::FuncOp> KernelLibrary::embedding(DequantizeOp op) {
  FailureOr<PackedLayout> layout = layoutOf(op, op.getFormat());
  if (failed(layout))
    return failure();
  EmbeddingSpec spec;
  spec.layout = *layout;
  spec.k = op.getK();
  spec.scale = op.getScale().convertToDouble();
  std::string name = llvm::formatv("embedding_{0}_k{1}{2}", op.getFormat(), spec.k, spec.scale == 1 ? "" : "_s" + llvm::utohexstr(llvm::bit_cast<uint32_t>(spec.scale)));
  return once(name, [&](StringRef name) { return buildEmbedding(code, name, spec); });
}

// Halide's kernels come as objects; the code module only declares them.
FailureOr<func::FuncOp> KernelLibrary::rowWise(KernelCallOp op) {
  return once(op.getCallee().str(), [&](StringRef name) -> FailureOr<func::FuncOp> {
    FailureOr<std::string> object = emitHalideKernel(source.lookupSymbol<func::FuncOp>(name), target, name);
    if (failed(object))
      return failure();
    halideObjects.push_back(std::move(*object));
    OpBuilder b(code.getContext());
    b.setInsertionPointToEnd(code.getBody());
    SmallVector<Type> parameters(op.getNumOperands(), LLVM::LLVMPointerType::get(b.getContext()));
    auto declaration = func::FuncOp::create(b, op.getLoc(), name, b.getFunctionType(parameters, {b.getI32Type()}));
    declaration.setPrivate();
    return declaration;
  });
}

unsigned KernelLibrary::record(func::FuncOp kernel, Operation *op, StringRef emitter, unsigned times) {
  auto entry = kernels.try_emplace(kernel.getSymNameAttr()).first;
  unsigned index = entry - kernels.begin();
  KernelRecord &record = entry->second;
  record.name = kernel.getSymName().str();
  record.emitter = emitter.str();
  record.calls += times;
  auto cost = dyn_cast<KernelOpInterface>(op);
  record.kind = cost ? cost.getKernelKind().str() : "cache";
  if (!cost)
    return index;
  record.flopsPerRow = cost.getFlopsPerRow();
  record.fixedBytes = cost.getFixedBytes();
  record.bytesPerRow = cost.getBytesPerRow();
  return index;
}
