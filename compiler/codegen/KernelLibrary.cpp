// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/KernelLibrary.h"

#include "compiler/codegen/targets/cpu/OnlineAttention.h"
#include "compiler/codegen/targets/cpu/KvAppend.h"
#include "compiler/codegen/targets/cpu/Dequantize.h"
#include "compiler/codegen/targets/cpu/OnlineLatentAttention.h"
#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "compiler/codegen/targets/cpu/RouteExperts.h"
#include "compiler/codegen/halide/HalideEmitter.h"
#include "runtime/model/ModelAbi.h"

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

// How a product's input comes, and what tells its kernel from others by it.
template <typename Product> static std::pair<MatmulActivation, StringRef> activationOf(Product op) {
  if (op.getInputScales())
    return {MatmulActivation::Q8, "_int8"};
  if (getElementTypeOrSelf(op.getInput()).isBF16())
    return {MatmulActivation::Bf16, "_bf16"};
  return {MatmulActivation::F32, ""};
}

FailureOr<func::FuncOp> KernelLibrary::once(const std::string &name, Build onCpu, Build onDevice) {
  if (auto known = code.lookupSymbol<func::FuncOp>(name))
    return known;
  return target.isDevice() ? onDevice(name) : onCpu(name);
}

LogicalResult KernelLibrary::refuse(Operation *op, StringRef what) {
  return op->emitError("target ") << target.name << " has no kernel for " << what;
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
  spec.activation = activationOf(op).first;
  return spec;
}

FailureOr<func::FuncOp> KernelLibrary::product(Operation *op, const std::string &name, const MatmulSpec &spec) {
  return once(
      name, [&](StringRef name) { return buildMatmul(code, name, spec, target.cpu); },
      [&](StringRef name) { return device.matmul(op, name, spec); });
}

FailureOr<func::FuncOp> KernelLibrary::matmul(PackedMatmulOp op) {
  FailureOr<MatmulSpec> spec = productSpec(op);
  if (failed(spec))
    return failure();
  spec->hasBias = bool(op.getBias());
  spec->accumulate = op.getAccumulate();
  return product(op,
                 llvm::formatv("matmul_{0}_n{1}_k{2}{3}{4}{5}", op.getFormat(), spec->n, spec->k,
                               activationOf(op).second, spec->hasBias ? "_bias" : "", spec->accumulate ? "_add" : ""),
                 *spec);
}

static MoeRouteSpec routeSpec(RouteExpertsOp op) {
  RoutingAttr routing = op.getRoutingAttr();
  MoeRouteSpec spec{int64_t(op.getNumExperts()), int64_t(op.getTopK()), op.getNormalize()};
  spec.hasCorrection = bool(op.getCorrection());
  if (!routing)
    return spec;
  spec.scale = routing.getScaleValue();
  spec.sigmoid = routing.getSigmoid();
  spec.numGroups = routing.getNumGroups();
  spec.topGroups = routing.getTopGroups();
  return spec;
}

static constexpr StringRef mixtures = "mixtures of experts";

FailureOr<func::FuncOp> KernelLibrary::routeExperts(RouteExpertsOp op) {
  MoeRouteSpec spec = routeSpec(op);
  std::string name =
      llvm::formatv("route_e{0}_k{1}{2}{3}{4}", spec.numExperts, spec.topK, spec.normalize ? "_normalize" : "",
                    spec.sigmoid ? "_sigmoid" : "", spec.hasCorrection ? "_corrected" : "");
  if (spec.numGroups > 1)
    name += llvm::formatv("_g{0}of{1}", spec.topGroups, spec.numGroups);
  if (spec.scale != 1)
    name += llvm::formatv("_s{0}", llvm::utohexstr(llvm::bit_cast<uint32_t>(spec.scale)));
  return once(
      name, [&](StringRef name) { return buildMoeRoute(code, name, spec); },
      [&](StringRef) { return refuse(op, mixtures); });
}

FailureOr<func::FuncOp> KernelLibrary::groupByExpert(RouteExpertsOp op) {
  std::string name = llvm::formatv("group_e{0}_k{1}", op.getNumExperts(), op.getTopK());
  return once(
      name, [&](StringRef name) { return buildMoeGroup(code, name, routeSpec(op)); },
      [&](StringRef) { return refuse(op, mixtures); });
}

int64_t KernelLibrary::expertBytes(ExpertMatmulOp op) {
  return cast<ShapedType>(op.getWeights().getType()).getNumElements() / int64_t(op.getNumExperts());
}

static MatmulEpilogue gatedBy(ActivationKind kind) {
  switch (kind) {
  case ActivationKind::Silu:
    return MatmulEpilogue::GatedSilu;
  case ActivationKind::Gelu:
    return MatmulEpilogue::GatedGelu;
  case ActivationKind::GeluTanh:
    return MatmulEpilogue::GatedGeluTanh;
  case ActivationKind::Relu:
    return MatmulEpilogue::GatedRelu;
  case ActivationKind::QuickGelu:
    return MatmulEpilogue::GatedQuickGelu;
  case ActivationKind::Tanh:
    return MatmulEpilogue::GatedTanh;
  }
  llvm_unreachable("an activation of the dialect");
}

FailureOr<func::FuncOp> KernelLibrary::expertMatmul(ExpertMatmulOp op) {
  FailureOr<MatmulSpec> shape = productSpec(op);
  if (failed(shape))
    return failure();
  MatmulSpec spec = *shape;
  spec.rows = op.getActivation() ? MatmulRows::Gathered : MatmulRows::Scattered;
  if (op.getActivation())
    spec.epilogue = gatedBy(*op.getActivation());
  int64_t bytes = (op.getActivation() ? 2 : 1) * spec.layout.bytes(spec.n, spec.k);
  if (expertBytes(op) != bytes)
    return op.emitError("an expert's weights take ") << expertBytes(op) << " bytes, their layout " << bytes;
  std::string activation = op.getActivation() ? ("_" + stringifyActivationKind(*op.getActivation())).str() : "";
  std::string name =
      llvm::formatv("experts_{0}_n{1}_k{2}{3}{4}", op.getFormat(), spec.n, spec.k, activationOf(op).second, activation);
  return product(op, name, spec);
}

// What tells the attention kernels of a model apart. Scale and cap by their bits: two layers that differ in them are two kernels.
static std::string attentionName(StringRef prefix, const AttentionSpec &spec) {
  return llvm::formatv("{0}_h{1}_kv{2}_d{3}_w{4}_s{5}_c{6}{7}{8}{9}{10}", prefix, spec.numHeads, spec.numKvHeads,
                       spec.headDim, spec.window, llvm::utohexstr(llvm::bit_cast<uint64_t>(spec.scale)),
                       llvm::utohexstr(llvm::bit_cast<uint64_t>(spec.softcap)), spec.causal ? "" : "_full",
                       spec.hasSinks ? "_sinks" : "", spec.shareKvHeads ? "" : "_unshared",
                       spec.storesScores ? "_stored" : "");
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

// Kernels walk the cache page by page.
static LogicalResult verifyBlock(OnlineAttentionOp op) {
  if (op.getBlockKv() == HEDDLE_KV_PAGE_SIZE)
    return success();
  return op.emitError("no kernel has blocks of ") << op.getBlockKv() << " keys, only of " << HEDDLE_KV_PAGE_SIZE;
}

static LogicalResult verifySplit(Operation *op, std::optional<uint64_t> splitKv) {
  if (!splitKv || *splitKv == attentionSplitTokens)
    return success();
  return op->emitError("no kernel splits the keys every ")
         << *splitKv << " tokens, only every " << attentionSplitTokens;
}

FailureOr<func::FuncOp> KernelLibrary::attention(OnlineAttentionOp op) {
  AttentionSpec spec = attentionSpec(op.getCache().getType(), op.getNumHeads(), op.getMask(), bool(op.getSinks()));
  spec.scale = op.getScale().convertToDouble();
  spec.softcap = op.getSoftcap().convertToDouble();
  spec.shareKvHeads = op.getShareKv();
  spec.storesScores = op.storesScores();
  std::string error;
  if (failed(verifyAttention(spec, error)))
    return op.emitError(error);
  if (failed(verifyBlock(op)) || failed(verifySplit(op, op.getSplitKv())))
    return failure();
  if (op.getSplitKv())
    return once(
        attentionName("attention_split", spec),
        [&](StringRef name) { return buildAttentionSplit(code, name, spec, target.cpu); },
        [&](StringRef) { return refuse(op, "splits of the keys"); });
  return once(
      attentionName("attention", spec), [&](StringRef name) { return buildAttention(code, name, spec, target.cpu); },
      [&](StringRef name) {
        return spec.storesScores ? FailureOr<func::FuncOp>(refuse(op, "stored scores"))
                                 : device.attention(op, name, spec);
      });
}

FailureOr<func::FuncOp> KernelLibrary::combineSplits(CombineSplitsOp op) {
  if (failed(verifySplit(op, op.getSplitKv())))
    return failure();
  AttentionSpec spec = attentionSpec(op.getCache().getType(), op.getNumHeads(), op.getMask(), bool(op.getSinks()));
  return once(
      attentionName("combine_splits", spec),
      [&](StringRef name) { return buildCombineSplits(code, name, spec, target.cpu); },
      [&](StringRef) { return refuse(op, "splits of the keys"); });
}

FailureOr<func::FuncOp> KernelLibrary::plainMatmul(Operation *op, StringRef format, int64_t n, int64_t k,
                                                   int64_t &bytes) {
  FailureOr<PackedLayout> layout = layoutOf(op, format);
  if (failed(layout))
    return failure();
  MatmulSpec spec;
  spec.layout = *layout;
  spec.n = n;
  spec.k = k;
  bytes = layout->bytes(n, k);
  return product(op, llvm::formatv("matmul_{0}_n{1}_k{2}", format, n, k), spec);
}

static constexpr StringRef latent = "latent attention";

FailureOr<KernelLibrary::LatentKernels> KernelLibrary::latentAttention(OnlineLatentAttentionOp op) {
  if (target.isDevice())
    return refuse(op, latent);
  LatentAttentionSpec spec;
  LatentDims &dims = spec.dims = op.getDims();
  spec.form = op.getForm();
  spec.scale = op.getScale().convertToDouble();
  spec.window = op.getMask().getWindow();
  spec.causal = op.getMask().getCausal();
  spec.kv = kvTypeOf(op.getCache().getType());
  std::string error;
  if (failed(verifyAttention(spec.absorbed(), error)) || failed(verifyAttention(spec.rebuilt(), error)))
    return op.emitError(error);
  std::string suffix =
      llvm::formatv("_{0}_h{1}_kv{2}_r{3}_n{4}_p{5}_v{6}_w{7}_s{8}{9}", stringifyLatentForm(spec.form), dims.numHeads,
                    dims.numKvHeads, dims.rank, dims.nope, dims.rope, dims.value, spec.window,
                    llvm::utohexstr(llvm::bit_cast<uint64_t>(spec.scale)), spec.causal ? "" : "_full");
  for (std::optional<StringRef> format : {op.getKeyFormat(), op.getFoldFormat(), op.getValueFormat()})
    suffix += "_" + format.value_or("none").str();
  LatentKernels kernels;
  FailureOr<func::FuncOp> matmulValue = plainMatmul(op, *op.getValueFormat(), dims.value, dims.rank, spec.valueBytes);
  if (failed(matmulValue))
    return failure();
  auto build = [&](func::FuncOp &kernel, const char *name, function_ref<func::FuncOp(StringRef)> make) {
    kernel = *once(name + suffix, make, [&](StringRef) { return refuse(op, latent); });
  };
  if (spec.form != LatentForm::Materialised) {
    FailureOr<func::FuncOp> matmulFold = plainMatmul(op, *op.getFoldFormat(), dims.rank, dims.nope, spec.foldBytes);
    if (failed(matmulFold))
      return failure();
    func::FuncOp attention;
    build(kernels.fold, "latent_fold", [&](StringRef name) { return buildLatentFold(code, name, spec, *matmulFold); });
    build(attention, "latent_attention",
          [&](StringRef name) { return buildAttention(code, name, spec.absorbed(), target.cpu); });
    build(kernels.attend, "latent_attend",
          [&](StringRef name) { return buildLatentAttend(code, name, spec, attention); });
    build(kernels.project, "latent_project",
          [&](StringRef name) { return buildLatentProject(code, name, spec, *matmulValue); });
  }
  if (spec.form != LatentForm::Absorbed) {
    FailureOr<func::FuncOp> matmulKey = plainMatmul(op, *op.getKeyFormat(), dims.nope, dims.rank, spec.keyBytes);
    if (failed(matmulKey))
      return failure();
    build(kernels.rebuild, "latent_rebuild",
          [&](StringRef name) { return buildLatentRebuild(code, name, spec, target.cpu, *matmulKey, *matmulValue); });
  }
  return kernels;
}

FailureOr<func::FuncOp> KernelLibrary::kvAppend(KvAppendOp op) {
  KvCacheType cache = op.getCache().getType();
  KvAppendSpec spec;
  spec.numKvHeads = cache.getNumKvHeads();
  spec.headDim = cache.getKeyDim();
  spec.valueHeadDim = cache.getValueDim();
  spec.isLatent = cache.isLatent();
  spec.kv = kvTypeOf(cache);
  return once(
      "kv_append", [&](StringRef name) { return buildKvAppend(code, name, spec, target.cpu); },
      [&](StringRef name) -> FailureOr<func::FuncOp> {
        return spec.isLatent ? FailureOr<func::FuncOp>(refuse(op, latent)) : device.kvAppend(op, name, spec);
      });
}

FailureOr<func::FuncOp> KernelLibrary::embedding(DequantizeOp op) {
  FailureOr<PackedLayout> layout = layoutOf(op, op.getFormat());
  if (failed(layout))
    return failure();
  EmbeddingSpec spec;
  spec.layout = *layout;
  spec.k = op.getK();
  spec.scale = op.getScale().convertToDouble();
  // A device's kernel keeps ids within the table's rows.
  std::string rows = target.isDevice() ? "_n" + std::to_string(op.getN()) : "";
  std::string name = llvm::formatv("embedding_{0}_k{1}{2}{3}", op.getFormat(), spec.k, rows,
                                   spec.scale == 1 ? "" : "_s" + llvm::utohexstr(llvm::bit_cast<uint32_t>(spec.scale)));
  return once(
      name, [&](StringRef name) { return buildEmbedding(code, name, spec); },
      [&](StringRef name) { return device.embedding(op, name, spec, op.getN()); });
}

// Halide's kernels come as objects; the code module only declares them. On a device, their first parameter is the device.
FailureOr<func::FuncOp> KernelLibrary::rowWise(KernelCallOp op) {
  auto emit = [&](StringRef name) -> FailureOr<func::FuncOp> {
    FailureOr<std::string> object = emitHalideKernel(source.lookupSymbol<func::FuncOp>(name), target, name);
    if (failed(object))
      return failure();
    halideObjects.push_back(std::move(*object));
    halideKernels.insert(name);
    OpBuilder b(code.getContext());
    b.setInsertionPointToEnd(code.getBody());
    SmallVector<Type> parameters(op.getNumOperands() + target.isDevice(), LLVM::LLVMPointerType::get(b.getContext()));
    auto declaration = func::FuncOp::create(b, op.getLoc(), name, b.getFunctionType(parameters, {b.getI32Type()}));
    declaration.setPrivate();
    return declaration;
  };
  return once(op.getCallee().str(), emit, emit);
}

unsigned KernelLibrary::record(func::FuncOp kernel, Operation *op, unsigned times) {
  auto entry = kernels.try_emplace(kernel.getSymNameAttr()).first;
  unsigned index = entry - kernels.begin();
  launched.push_back({index, op});
  KernelRecord &record = entry->second;
  record.name = kernel.getSymName().str();
  record.emitter = halideKernels.contains(record.name) ? "halide" : "mlir";
  record.calls += times;
  auto cost = dyn_cast<KernelOpInterface>(op);
  if (auto attention = dyn_cast<OnlineAttentionOp>(op))
    record.schedule = attention.storesScores() ? "scores stored" : "block_kv=" + std::to_string(attention.getBlockKv());
  record.kind = cost ? cost.getKernelKind().str() : "cache";
  if (!cost)
    return index;
  record.flopsPerRow = cost.getFlopsPerRow();
  record.fixedBytes = cost.getFixedBytes();
  record.bytesPerRow = cost.getBytesPerRow();
  return index;
}
