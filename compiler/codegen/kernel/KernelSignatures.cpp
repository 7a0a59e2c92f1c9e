// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads specifications from kernel ops. Names hold whatever the code of a kernel depends on; numbers that are not integers are told
// apart by their bits.

#include "compiler/codegen/kernel/KernelSignatures.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace heddle;

FailureOr<PackedLayout> heddle::layoutOf(Operation *op, StringRef format) {
  if (std::optional<PackedLayout> layout = layoutNamed(format))
    return *layout;
  return op->emitError("no packed layout holds weights of type '") << format << "'";
}

KvType heddle::kvTypeOf(KvCacheType cache) {
  Type element = cache.getElementType();
  if (element.isInteger(8))
    return KvType::Q8_0;
  return element.isF32() ? KvType::F32 : element.isBF16() ? KvType::BF16 : KvType::F16;
}

//===- products -----------------------------------------------------------===//

// How a product's input comes, and what tells its kernel from others by it.
template <typename Matmul> static std::pair<MatmulActivation, StringRef> activationOf(Matmul op) {
  if (op.getInputScales())
    return {MatmulActivation::Q8, "_int8"};
  if (getElementTypeOrSelf(op.getInput()).isBF16())
    return {MatmulActivation::Bf16, "_bf16"};
  return {MatmulActivation::F32, !op.getInt16() ? "" : op.getInputRounded() ? "_int16_bf16" : "_int16"};
}

// What `packed_matmul` and `expert_matmul` have in common.
template <typename Matmul> static FailureOr<MatmulSpec> matmulSpec(Matmul op) {
  FailureOr<PackedLayout> layout = layoutOf(op, op.getFormat());
  if (failed(layout))
    return failure();
  MatmulSpec spec;
  spec.layout = *layout;
  spec.n = op.getN();
  spec.k = op.getK();
  spec.activation = activationOf(op).first;
  spec.int16FewRows = op.getInt16();
  spec.hasRounded = bool(op.getInputRounded());
  return spec;
}

static MatmulEpilogue epilogueOf(ActivationKind kind) {
  switch (kind) {
  case ActivationKind::Silu:
    return MatmulEpilogue::Silu;
  case ActivationKind::Gelu:
    return MatmulEpilogue::Gelu;
  case ActivationKind::GeluTanh:
    return MatmulEpilogue::GeluTanh;
  case ActivationKind::Relu:
    return MatmulEpilogue::Relu;
  case ActivationKind::QuickGelu:
    return MatmulEpilogue::QuickGelu;
  case ActivationKind::Tanh:
    return MatmulEpilogue::Tanh;
  case ActivationKind::SquaredRelu:
    return MatmulEpilogue::SquaredRelu;
  }
  llvm_unreachable("an activation of the dialect");
}

std::string heddle::matmulName(StringRef format, int64_t n, int64_t k) {
  return llvm::formatv("matmul_{0}_n{1}_k{2}", format, n, k);
}

static std::string activationName(std::optional<ActivationKind> kind) {
  return kind ? ("_" + stringifyActivationKind(*kind)).str() : "";
}

// Who prepares the rows of a product that has room for that.
template <typename Matmul> static std::string preparationName(Matmul op) {
  if (!op.getRoom())
    return "";
  std::string name = getElementTypeOrSelf(op.getRoom()).isBF16() ? "_rounds" : "_prepares";
  if (op.getNorm())
    for (FloatAttr number : {op.getEpsAttr(), op.getWeightOffsetAttr()})
      name += "_" + llvm::utohexstr(llvm::bit_cast<uint64_t>(number.getValueAsDouble()));
  return name;
}

// What a product rounds of its result.
static std::string roundingName(PackedMatmulOp op) {
  if (std::optional<int64_t> above = op.getRoundedAbove())
    return "_above" + std::to_string(*above);
  return getElementTypeOrSelf(op.getInits()[0]).isBF16() ? "_rounded" : "";
}

// Of a product that has room: what it makes of its rows.
template <typename Matmul> static void readPreparation(Matmul op, MatmulSpec &spec) {
  Value room = op.getRoom();
  if (!room)
    return;
  spec.activation = getElementTypeOrSelf(room).isBF16() ? MatmulActivation::Bf16 : MatmulActivation::F32;
  spec.prepares.emplace();
  if (op.getNorm())
    spec.prepares = {true, op.getEpsAttr().getValueAsDouble(), op.getWeightOffsetAttr().getValueAsDouble()};
}

FailureOr<MatmulSpec> heddle::specOf(PackedMatmulOp op) {
  FailureOr<MatmulSpec> spec = matmulSpec(op);
  if (failed(spec))
    return failure();
  spec->hasBias = bool(op.getBias());
  spec->accumulate = op.getAccumulate();
  if (op.getActivation())
    spec->epilogue = epilogueOf(*op.getActivation());
  spec->isGated = op.getGated();
  spec->roundedAbove = op.getRoundedAbove().value_or(0);
  spec->isOutRounded = getElementTypeOrSelf(op.getInits()[0]).isBF16();
  readPreparation(op, *spec);
  return spec;
}

std::string heddle::signatureOf(PackedMatmulOp op) {
  return matmulName(op.getFormat(), op.getN(), op.getK()) + activationOf(op).second.str() + preparationName(op) +
         (op.getBias() ? "_bias" : "") + activationName(op.getActivation()) + (op.getGated() ? "_gated" : "") +
         (op.getAccumulate() ? "_add" : "") + roundingName(op);
}

int64_t heddle::expertBytes(ExpertMatmulOp op) {
  return cast<ShapedType>(op.getWeights().getType()).getNumElements() / int64_t(op.getNumExperts());
}

FailureOr<MatmulSpec> heddle::specOf(ExpertMatmulOp op) {
  FailureOr<MatmulSpec> spec = matmulSpec(op);
  if (failed(spec))
    return failure();
  spec->rows = op.getActivation() ? MatmulRows::Gathered : MatmulRows::Scattered;
  if (op.getActivation())
    spec->epilogue = epilogueOf(*op.getActivation());
  spec->isGated = op.isGated();
  spec->scalesInput = op.getScalesInput();
  spec->hasBias = bool(op.getBias());
  spec->alternates = op.getAlternating();
  if (GatingAttr gating = op.getGatingAttr())
    spec->gating = {float(gating.getLimit().getValueAsDouble()), float(gating.getAlpha().getValueAsDouble()),
                    float(gating.getOffset().getValueAsDouble())};
  int64_t bytes = (op.isGated() ? 2 : 1) * spec->layout.bytes(spec->n, spec->k);
  if (expertBytes(op) != bytes)
    return op.emitError("an expert's weights take ") << expertBytes(op) << " bytes, their layout " << bytes;
  return spec;
}

std::string heddle::signatureOf(ExpertMatmulOp op) {
  std::string gating;
  if (GatingAttr attr = op.getGatingAttr())
    for (FloatAttr number : {attr.getLimit(), attr.getAlpha(), attr.getOffset()})
      gating += "_" + llvm::utohexstr(llvm::bit_cast<uint32_t>(float(number.getValueAsDouble())));
  return llvm::formatv("experts_{0}_n{1}_k{2}{3}{4}{5}{6}{7}{8}", op.getFormat(), op.getN(), op.getK(),
                       activationOf(op).second, op.getBias() ? "_bias" : "", activationName(op.getActivation()),
                       op.getAlternating() ? "_alternating"
                       : op.getUngated()   ? "_ungated"
                                           : "",
                       gating, op.getScalesInput() ? "_scaled" : "");
}

FailureOr<IntegerMatmulSpec> heddle::specOf(IntegerMatmulOp op) {
  FailureOr<PackedLayout> layout = layoutOf(op, "bytes");
  if (failed(layout))
    return failure();
  return IntegerMatmulSpec{*layout, int64_t(op.getN()), int64_t(op.getK()), bool(op.getZero()), op.getIsUnsigned()};
}

std::string heddle::signatureOf(IntegerMatmulOp op) {
  return llvm::formatv("integer_matmul_n{0}_k{1}_{2}{3}", op.getN(), op.getK(), op.getIsUnsigned() ? "u8" : "i8",
                       op.getZero() ? "_zero" : "");
}

//===- rows ---------------------------------------------------------------===//

FailureOr<EmbeddingSpec> heddle::specOf(DequantizeOp op) {
  FailureOr<PackedLayout> layout = layoutOf(op, op.getFormat());
  if (failed(layout))
    return failure();
  EmbeddingSpec spec;
  spec.layout = *layout;
  spec.k = op.getK();
  spec.scale = op.getScale().convertToDouble();
  spec.given = op.getGiven() ? op.getN() : 0;
  return spec;
}

std::string heddle::signatureOf(DequantizeOp op, bool countsRows) {
  float scale = op.getScale().convertToDouble();
  std::string rows = op.getGiven() ? "_given" + std::to_string(op.getN())
                     : countsRows  ? "_n" + std::to_string(op.getN())
                                   : "";
  return llvm::formatv("embedding_{0}_k{1}{2}{3}", op.getFormat(), op.getK(), rows,
                       scale == 1 ? "" : "_s" + llvm::utohexstr(llvm::bit_cast<uint32_t>(scale)));
}

MoeRouteSpec heddle::specOf(RouteExpertsOp op) {
  RoutingAttr routing = op.getRoutingAttr();
  MoeRouteSpec spec{int64_t(op.getNumExperts()), int64_t(op.getTopK()), op.getNormalize()};
  spec.hasCorrection = bool(op.getCorrection());
  spec.hasScales = bool(op.getScales());
  if (!routing)
    return spec;
  spec.scale = routing.getScaleValue();
  spec.sigmoid = routing.getSigmoid();
  spec.numGroups = routing.getNumGroups();
  spec.topGroups = routing.getTopGroups();
  spec.capacity = routing.getCapacity();
  if (routing.getJitter())
    spec.jitter = routing.getJitter().getValueAsDouble();
  return spec;
}

std::string heddle::signatureOf(RouteExpertsOp op) {
  MoeRouteSpec spec = specOf(op);
  std::string name =
      llvm::formatv("route_e{0}_k{1}{2}{3}{4}", spec.numExperts, spec.topK, spec.normalize ? "_normalize" : "",
                    spec.sigmoid ? "_sigmoid" : "", spec.hasCorrection ? "_corrected" : "");
  if (spec.numGroups > 1)
    name += llvm::formatv("_g{0}of{1}", spec.topGroups, spec.numGroups);
  if (spec.scale != 1)
    name += llvm::formatv("_s{0}", llvm::utohexstr(llvm::bit_cast<uint32_t>(spec.scale)));
  if (spec.capacity)
    name += llvm::formatv("_c{0}", spec.capacity);
  if (spec.jitter)
    name += llvm::formatv("_j{0}", llvm::utohexstr(llvm::bit_cast<uint32_t>(*spec.jitter)));
  if (spec.hasScales)
    name += "_scaled";
  return name;
}

std::string heddle::groupName(const MoeRouteSpec &spec) {
  std::string name = llvm::formatv("group_e{0}_k{1}", spec.numExperts, spec.topK);
  if (spec.capacity)
    name += llvm::formatv("_c{0}", spec.capacity);
  return name;
}

//===- attention ----------------------------------------------------------===//

// The part that attention and the merge of its splits have in common.
static AttentionSpec attentionSpec(KvCacheType cache, int64_t numHeads, MaskAttr mask, bool hasSinks) {
  AttentionSpec spec;
  spec.numHeads = numHeads;
  spec.numKvHeads = cache.getNumKvHeads();
  spec.headDim = cache.getHeadDim();
  spec.window = mask.getWindow();
  spec.ahead = mask.getAhead();
  spec.chunk = mask.getChunk();
  spec.causal = mask.getCausal();
  spec.given = mask.getGiven();
  spec.kv = kvTypeOf(cache);
  spec.hasSinks = hasSinks;
  return spec;
}

static KvType storedType(Value buffer) {
  Type element = getElementTypeOrSelf(buffer.getType());
  return element.isF32() ? KvType::F32 : element.isF16() ? KvType::F16 : KvType::BF16;
}

template <typename Op> static PositionSpec positionsOf(Op op) {
  PositionSpec spec;
  if (!op.getPositions())
    return spec;
  spec.kind = op.getRows() ? PositionSpec::Buckets : PositionSpec::Slopes;
  spec.table = storedType(op.getPositions());
  if (op.getRows()) {
    spec.starts = op.getStarts()->vec();
    spec.rows = op.getRows()->vec();
  }
  if (auto given = cast<ShapedType>(op.getPositions().getType()); op.getRows() && given.isDynamicDim(0)) {
    spec.kind = PositionSpec::Tokens;
    spec.numBuckets = given.getShape().back() / (2 * int64_t(op.getNumHeads()));
  }
  return spec;
}

AttentionSpec heddle::specOf(OnlineAttentionOp op) {
  AttentionSpec spec = attentionSpec(op.getCache().getType(), op.getNumHeads(), op.getMask(), bool(op.getSinks()));
  spec.scale = op.getScale().convertToDouble();
  spec.softcap = op.getSoftcap().convertToDouble();
  spec.shareKvHeads = op.getShareKv();
  spec.positions = positionsOf(op);
  spec.storesScores = op.storesScores();
  return spec;
}

AttentionSpec heddle::specOf(CombineSplitsOp op) {
  return attentionSpec(op.getCache().getType(), op.getNumHeads(), op.getMask(), bool(op.getSinks()));
}

static std::string nameOf(KvType type) {
  return type == KvType::F32 ? "f32" : type == KvType::F16 ? "f16" : "bf16";
}

// Runs of distances are many: their hash stands for them.
static std::string positionsName(const PositionSpec &spec) {
  if (!spec.hasBuckets())
    return spec.kind ? "_slopes" : "";
  std::string runs;
  for (const std::vector<int64_t> *numbers : {&spec.starts, &spec.rows})
    for (int64_t number : *numbers)
      runs += std::to_string(number) + ",";
  std::string hash = llvm::utohexstr(llvm::xxh3_64bits(runs));
  if (spec.kind == PositionSpec::Tokens)
    return llvm::formatv("_tokens{0}_{1}", spec.numBuckets, hash);
  return llvm::formatv("_buckets{0}_{1}", hash, nameOf(spec.table));
}

static std::string attentionName(StringRef prefix, const AttentionSpec &spec) {
  return llvm::formatv(
      "{0}_h{1}_kv{2}_d{3}_w{4}_s{5}_c{6}{7}{8}{9}{10}{11}{12}{13}{14}", prefix, spec.numHeads, spec.numKvHeads,
      spec.headDim, spec.window, llvm::utohexstr(llvm::bit_cast<uint64_t>(spec.scale)),
      llvm::utohexstr(llvm::bit_cast<uint64_t>(spec.softcap)), spec.causal ? "" : "_full",
      spec.hasSinks ? "_sinks" : "", spec.shareKvHeads ? "" : "_unshared", spec.storesScores ? "_stored" : "",
      positionsName(spec.positions), spec.ahead ? "_a" + std::to_string(spec.ahead) : "",
      spec.chunk ? "_chunk" + std::to_string(spec.chunk) : "", spec.given ? "_given" : "");
}

std::string heddle::signatureOf(OnlineAttentionOp op) {
  return attentionName(op.getSplitKv() ? "attention_split" : "attention", specOf(op));
}

std::string heddle::signatureOf(CombineSplitsOp op) {
  return attentionName("combine_splits", specOf(op));
}

AttentionSpec heddle::specOf(FlashAttentionOp op) {
  AttentionSpec spec;
  spec.numHeads = op.getQueryShape()[1];
  spec.numKvHeads = op.getKeyShape()[1];
  spec.headDim = op.getQueryShape()[3];
  spec.valueHeadDim = op.getValueShape()[3];
  spec.scale = op.getScale().convertToDouble();
  spec.softcap = op.getSoftcap().convertToDouble();
  spec.window = op.getMask().getWindow();
  spec.ahead = op.getMask().getAhead();
  spec.chunk = op.getMask().getChunk();
  spec.causal = op.getMask().getCausal();
  spec.kv = storedType(op.getKey());
  spec.rows = storedType(op.getQuery());
  spec.hasBias = bool(op.getBias());
  spec.hasSinks = bool(op.getSinks());
  return spec;
}

std::string heddle::signatureOf(FlashAttentionOp op) {
  AttentionSpec spec = specOf(op);
  return llvm::formatv("{0}_v{1}_{2}_{3}{4}", attentionName("flash_attention", spec), spec.valueDim(),
                       nameOf(spec.rows), nameOf(spec.kv), spec.hasBias ? "_bias" : "");
}

AttentionSpec heddle::specOf(RaggedAttentionOp op) {
  AttentionSpec spec;
  spec.numHeads = op.getNumHeads();
  spec.numKvHeads = op.getNumKvHeads();
  spec.headDim = op.getHeadDim();
  spec.valueHeadDim = op.getValueDim();
  spec.scale = op.getScale().convertToDouble();
  spec.softcap = op.getSoftcap().convertToDouble();
  spec.window = op.getMask().getWindow();
  spec.ahead = op.getMask().getAhead();
  spec.chunk = op.getMask().getChunk();
  spec.causal = op.getMask().getCausal();
  spec.kv = KvType::F32;
  spec.hasSinks = bool(op.getSinks());
  spec.positions = positionsOf(op);
  if (op.getGlobals())
    spec.globals = op.getOfGlobals() ? GlobalTokens::Queries : GlobalTokens::Keys;
  return spec;
}

std::string heddle::signatureOf(RaggedAttentionOp op) {
  AttentionSpec spec = specOf(op);
  StringRef globals = spec.globals == GlobalTokens::Keys      ? "_globals"
                      : spec.globals == GlobalTokens::Queries ? "_of_globals"
                                                              : "";
  return llvm::formatv("{0}_v{1}{2}", attentionName("ragged_attention", spec), spec.valueDim(), globals);
}

KvAppendSpec heddle::specOf(KvAppendOp op) {
  KvCacheType cache = op.getCache().getType();
  KvAppendSpec spec;
  spec.numKvHeads = cache.getNumKvHeads();
  spec.headDim = cache.getKeyDim();
  spec.valueHeadDim = cache.getValueDim();
  spec.isLatent = cache.isLatent();
  spec.kv = kvTypeOf(cache);
  return spec;
}

std::string heddle::signatureOf(KvAppendOp op) {
  KvAppendSpec spec = specOf(op);
  std::string value = spec.valueDim() == spec.headDim ? "" : "_v" + std::to_string(spec.valueDim());
  return llvm::formatv("kv_append{0}_kv{1}_d{2}{3}", op.getCache().getType().getCross() ? "_sources" : "",
                       spec.numKvHeads, spec.headDim, value);
}

void heddle::applySchedule(AttentionSpec &spec, ScheduleAttr schedule, unsigned tile) {
  spec.tileRows = schedule.getTiles()[tile].getRows().front();
  for (TileAttr registers : schedule.getTiles())
    if (registers.getRole() == TileRole::Registers) {
      spec.registerRows = registers.getRows().front();
      spec.registerColumns = registers.getColumns();
      if (registers.getK() == 2)
        spec.products = Products::Bf16;
    }
  spec.blockKv = schedule.getBlockKv();
  spec.splitKv = schedule.getSplitKv();
  spec.prefetchCache = schedule.getPrefetchCache();
}

static MatmulActivation inputOf(RotateAppendOp op) {
  return getElementTypeOrSelf(op.getInput()).isBF16() ? MatmulActivation::Bf16 : MatmulActivation::F32;
}

FailureOr<RotateAppendSpec> heddle::specOf(RotateAppendOp op) {
  KvCacheType cache = op.getCache().getType();
  RotateAppendSpec spec;
  spec.numHeads = op.getNumHeads();
  spec.numKvHeads = cache.getNumKvHeads();
  spec.headDim = cache.getHeadDim();
  spec.kv = kvTypeOf(cache);
  spec.rotaryDim = op.getRope().getRotaryDim();
  spec.offset = op.getOffset();
  spec.isInterleaved = op.getRope().getInterleaved();
  if (op.getQueryNorm())
    spec.heads = {true, op.getHeadsEpsAttr().getValueAsDouble(), op.getHeadsWeightOffsetAttr().getValueAsDouble()};
  if (!op.getWeights())
    return spec;
  FailureOr<PackedLayout> layout = layoutOf(op, *op.getFormat());
  if (failed(layout))
    return failure();
  spec.product.emplace();
  spec.product->layout = *layout;
  spec.product->n = spec.width();
  spec.product->k = *op.getK();
  spec.product->activation = inputOf(op);
  spec.product->hasBias = bool(op.getBias());
  readPreparation(op, *spec.product);
  return spec;
}

std::string heddle::signatureOf(RotateAppendOp op) {
  KvCacheType cache = op.getCache().getType();
  std::string name = llvm::formatv("rotate_append_h{0}_kv{1}_d{2}_r{3}{4}{5}", int64_t(op.getNumHeads()),
                                   cache.getNumKvHeads(), cache.getHeadDim(), op.getRope().getRotaryDim(),
                                   op.getOffset() ? "_o" + std::to_string(op.getOffset()) : "",
                                   op.getRope().getInterleaved() ? "_interleaved" : "");
  if (op.getQueryNorm())
    for (FloatAttr number : {op.getHeadsEpsAttr(), op.getHeadsWeightOffsetAttr()})
      name += "_" + llvm::utohexstr(llvm::bit_cast<uint64_t>(number.getValueAsDouble()));
  if (!op.getWeights())
    return name;
  return matmulName(*op.getFormat(), op.getWidth(), *op.getK()) +
         (inputOf(op) == MatmulActivation::Bf16 ? "_bf16" : "") + preparationName(op) + (op.getBias() ? "_bias" : "") +
         "_" + name;
}

ConvSpec heddle::specOf(RaggedConvOp op) {
  return {op.getChannels(), op.getWidth(), bool(op.getBias()), bool(op.getActivation())};
}

std::string heddle::signatureOf(RaggedConvOp op) {
  ConvSpec spec = specOf(op);
  return llvm::formatv("conv_c{0}_w{1}{2}{3}", spec.channels, spec.width, spec.hasBias ? "_bias" : "",
                       spec.hasSilu ? "_silu" : "");
}

LinearAttentionSpec heddle::specOf(RaggedLinearAttentionOp op) {
  LinearAttentionSpec spec;
  spec.numHeads = op.getNumHeads();
  spec.numKeyHeads = op.getNumKeyHeads();
  spec.keyDim = op.getKeyDim();
  spec.valueDim = op.getValueDim();
  spec.hasDecay = bool(op.getDecay());
  spec.hasBeta = bool(op.getBeta());
  spec.scale = op.getScale().convertToDouble();
  spec.decaysByKey = op.decaysByKey();
  return spec;
}

std::string heddle::signatureOf(RaggedLinearAttentionOp op) {
  LinearAttentionSpec spec = specOf(op);
  return llvm::formatv("linear_attention_h{0}_{1}_d{2}_{3}{4}{5}_{6}", spec.numHeads, spec.numKeyHeads, spec.keyDim,
                       spec.valueDim,
                       spec.decaysByKey ? "_decays"
                       : spec.hasDecay  ? "_decay"
                                        : "",
                       spec.hasBeta ? "_delta" : "", llvm::utohexstr(llvm::bit_cast<uint64_t>(spec.scale)));
}
