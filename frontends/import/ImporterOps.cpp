// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a layer computes: an op of the dialect, or a few, for each phrase that families are written with.

#include "frontends/import/ModelImporter.h"
#include "frontends/import/TokenOps.h"
#include "frontends/peft/VirtualTokens.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <utility>

using namespace mlir;
using namespace heddle;

static constexpr int64_t dynamic = ShapedType::kDynamic;

ActivationKind heddle::activationKind(Activation activation) {
  switch (activation) {
  case Activation::Silu:
    return ActivationKind::Silu;
  case Activation::Gelu:
    return ActivationKind::Gelu;
  case Activation::GeluTanh:
    return ActivationKind::GeluTanh;
  case Activation::Relu:
    return ActivationKind::Relu;
  case Activation::QuickGelu:
    return ActivationKind::QuickGelu;
  case Activation::Tanh:
    return ActivationKind::Tanh;
  case Activation::SquaredRelu:
    return ActivationKind::SquaredRelu;
  }
  llvm_unreachable("all activations are listed");
}

TensorHandle ModelImporter::linear(TensorHandle x, const std::string &name) {
  return linear(x, name + ".weight", has(name + ".bias") ? name + ".bias" : "", 0, 0);
}

TensorHandle ModelImporter::linear(TensorHandle x, const std::string &weightName, const std::string &biasName,
                                   int64_t begin, int64_t rows) {
  enter(weightName);
  auto partOf = [&](const std::string &name) -> SmallVector<Value> {
    if (rows)
      return {weight(WeightPart{prefix + name, begin, rows})};
    return orderedRows(name);
  };
  SmallVector<Value> matrices = partOf(weightName), biases;
  if (!biasName.empty())
    biases = partOf(biasName);
  // (batch, sequence, in) -> (batch, sequence, out), and (batch, in) -> (batch, out)
  SmallVector<int64_t> shape(typeOf(unwrap(x)).getShape());
  shape.back() = 0;
  for (Value matrix : matrices)
    shape.back() += typeOf(matrix).getDimSize(0);
  auto type = RankedTensorType::get(shape, b.getF32Type());
  Value y = LinearOp::create(b, loc, type, unwrap(x), matrices, biases);
  TensorHandle result = wrap(adapted(y, unwrap(x), weightName, begin, rows));
  noteBottleneck(result, weightName);
  return result;
}

TensorHandle ModelImporter::rmsNormed(TensorHandle input, const std::string &name, double eps, double weightOffset) {
  enter(name);
  Value x = unwrap(input);
  bool hasWeight = has(name + ".weight");
  return wrap(RmsNormOp::create(b, loc, x.getType(), x, hasWeight ? vector(name + ".weight") : ones(x),
                                b.getF64FloatAttr(eps ? eps : config().normEps),
                                b.getF64FloatAttr(hasWeight ? weightOffset : 0.0)));
}

TensorHandle ModelImporter::rmsNorm(TensorHandle x, const std::string &name, double eps) {
  return rmsNormed(x, name, eps, config().normWeightOffset);
}

TensorHandle ModelImporter::rmsNormLessOne(TensorHandle x, const std::string &name, double eps) {
  return rmsNormed(x, name, eps, 1.0);
}

TensorHandle ModelImporter::rmsNormAsStored(TensorHandle x, const std::string &name) {
  return rmsNormed(x, name, config().normEps, 0.0);
}

// A norm's weight that changes nothing.
Value ModelImporter::ones(Value x) {
  auto type = RankedTensorType::get(typeOf(x).getShape().back(), b.getF32Type());
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, 1.0f));
}

TensorHandle ModelImporter::layerNorm(TensorHandle input, const std::string &name, double eps) {
  if (std::optional<BottleneckPlace> place = takeSum(input))
    return bottlenecked(*place, [&](TensorHandle x) { return layerNorm(x, name, eps); });
  enter(name);
  Value x = unwrap(input);
  auto normed = [&](Value scale, Value bias) {
    return LayerNormOp::create(b, loc, x.getType(), x, scale, bias, b.getF64FloatAttr(eps ? eps : config().normEps));
  };
  if (!has(name + ".weight"))
    return wrap(normed(ones(x), Value()));
  Value scale = vector(name + ".weight");
  Value result = normed(scale, has(name + ".bias") ? vector(name + ".bias") : Value());
  if (config().normWeightOffset == 0.0)
    return wrap(result);
  // normalized (weight + offset) + bias, without arithmetic on what is stored
  Value offset = unwrap(this->scale(wrap(normed(ones(x), Value())), config().normWeightOffset));
  return wrap(arith::AddFOp::create(b, loc, result, offset));
}

TensorHandle ModelImporter::add(TensorHandle a, TensorHandle c) {
  if (std::optional<BottleneckPlace> place = takeBlock(a, c))
    return bottlenecks->normsBehind ? sumOf(*place) : bottlenecked(*place, nullptr);
  enter("add");
  return wrap(arith::AddFOp::create(b, loc, unwrap(a), unwrap(c)));
}

// A tensor of the shape of `like`, all of whose elements are `number`.
Value ModelImporter::splat(double number, Value like) {
  Value scalar = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(number));
  return tensor::SplatOp::create(b, loc, scalar, tensor::getMixedSizes(b, loc, like));
}

TensorHandle ModelImporter::scale(TensorHandle x, double factor) {
  if (factor == 1.0)
    return x;
  enter("scale");
  return wrap(arith::MulFOp::create(b, loc, unwrap(x), splat(factor, unwrap(x))));
}

TensorHandle ModelImporter::clip(TensorHandle x, double limit) {
  if (limit == 0.0)
    return x;
  enter("clamp");
  Value below = arith::MinimumFOp::create(b, loc, unwrap(x), splat(limit, unwrap(x)));
  return wrap(arith::MaximumFOp::create(b, loc, below, splat(-limit, unwrap(x))));
}

TensorHandle ModelImporter::weightedSum(const std::vector<TensorHandle> &parts, TensorHandle weights, int64_t begin) {
  enter("weighted_sum");
  return wrap(sumByWeights(b, loc, unwrap(parts), unwrap(weights), begin));
}

TensorHandle ModelImporter::withMagnitudeOf(TensorHandle x, TensorHandle like, double least) {
  enter("magnitude");
  return wrap(rowsOfMagnitude(b, loc, unwrap(x), unwrap(like), least));
}

TensorHandle ModelImporter::aboveCutoff(TensorHandle x, double deviations) {
  enter("cutoff");
  return wrap(rowsAboveCutoff(b, loc, unwrap(x), deviations));
}

TensorHandle ModelImporter::gated(TensorHandle gate, TensorHandle up, Activation activation) {
  enter("activation");
  return wrap(GluOp::create(b, loc, unwrap(gate).getType(), unwrap(gate), unwrap(up),
                            ActivationKindAttr::get(b.getContext(), activationKind(activation))));
}

TensorHandle ModelImporter::multiply(TensorHandle a, TensorHandle c) {
  enter("multiply");
  return wrap(arith::MulFOp::create(b, loc, unwrap(a), unwrap(c)));
}

// Its kernel has silu alone.
TensorHandle ModelImporter::causalConv(TensorHandle x, const std::string &name, std::optional<Activation> activation) {
  enter(name);
  Value bias = has(name + ".bias") ? weight(name + ".bias") : Value();
  bool isFused = activation == Activation::Silu;
  auto kind = isFused ? ActivationKindAttr::get(b.getContext(), ActivationKind::Silu) : ActivationKindAttr();
  Value y = CausalConvOp::create(b, loc, unwrap(x).getType(), unwrap(x), vector(name + ".weight"), bias,
                                 /*cache=*/Value(), /*layer=*/Value(), b.getI64IntegerAttr(0), kind);
  return activation && !isFused ? gated(wrap(y), TensorHandle(), *activation) : wrap(y);
}

TensorHandle ModelImporter::linearAttention(TensorHandle q, TensorHandle k, TensorHandle v,
                                            const LinearAttentionTerms &terms) {
  enter("linear_attention");
  return wrap(LinearAttentionOp::create(b, loc, unwrap(v).getType(), unwrap(q), unwrap(k), unwrap(v),
                                        unwrap(terms.decay), unwrap(terms.beta), /*cache=*/Value(), /*layer=*/Value(),
                                        b.getI64IntegerAttr(terms.valueHeads), b.getI64IntegerAttr(terms.keyHeads),
                                        b.getF64FloatAttr(terms.scale), b.getI64IntegerAttr(0)));
}

TensorHandle ModelImporter::sigmoid(TensorHandle x) {
  enter("sigmoid");
  return wrap(sigmoidOf(b, loc, unwrap(x)));
}

TensorHandle ModelImporter::softplus(TensorHandle x, const std::string &bias) {
  enter(bias.empty() ? "softplus" : bias);
  return wrap(softplusOf(b, loc, unwrap(x), bias.empty() ? Value() : vector(bias)));
}

TensorHandle ModelImporter::decay(TensorHandle steps, const std::string &rates) {
  enter(rates);
  return wrap(decayOf(b, loc, unwrap(steps), vector(rates), config().recurrent.ratesAreLogs));
}

TensorHandle ModelImporter::scaleHeads(TensorHandle x, TensorHandle factors) {
  enter("scale_heads");
  return wrap(headsScaled(b, loc, unwrap(x), unwrap(factors)));
}

TensorHandle ModelImporter::scaleHeads(TensorHandle x, const std::string &name) {
  enter(name);
  return wrap(headsScaled(b, loc, unwrap(x), vector(name)));
}

TensorHandle ModelImporter::xielu(TensorHandle x, const std::string &name) {
  enter(name);
  return wrap(xieluOf(b, loc, unwrap(x), vector(name)));
}

TensorHandle ModelImporter::patches() {
  return {entry.getArgument(3).getAsOpaquePointer()};
}

TensorHandle ModelImporter::columns(TensorHandle input, int64_t begin, int64_t end) {
  enter("columns");
  Value x = unwrap(input);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  SmallVector<OpFoldResult> offsets(sizes.size(), b.getIndexAttr(0)), strides(sizes.size(), b.getIndexAttr(1));
  offsets.back() = b.getIndexAttr(begin);
  sizes.back() = b.getIndexAttr(end - begin);
  SmallVector<int64_t> shape(typeOf(x).getShape());
  shape.back() = end - begin;
  return wrap(tensor::ExtractSliceOp::create(b, loc, typeOf(x).clone(shape), x, offsets, sizes, strides));
}

TensorHandle ModelImporter::tokensAt(TensorHandle input, int64_t place) {
  enter(place ? "tokens_at" : "first_tokens");
  Value x = unwrap(input);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  SmallVector<OpFoldResult> offsets(sizes.size(), b.getIndexAttr(0)), strides(sizes.size(), b.getIndexAttr(1));
  offsets[1] = b.getIndexAttr(place);
  sizes[1] = b.getIndexAttr(1);
  auto type = RankedTensorType::get({dynamic, typeOf(x).getDimSize(2)}, b.getF32Type());
  return wrap(tensor::ExtractSliceOp::create(b, loc, type, x, offsets, sizes, strides));
}

TensorHandle ModelImporter::lastTokens(TensorHandle x) {
  enter("last_tokens");
  return wrap(lastTokenOf(b, loc, unwrap(x)));
}

TensorHandle ModelImporter::pixelPatches() {
  enter("patches");
  const ImageConfig &image = config().image;
  auto type = RankedTensorType::get({dynamic, image.channels, image.size, image.size}, b.getF32Type());
  return wrap(patchesOf(b, loc, input("pixel_values", type, {batchName, "", "", ""}), image.patch, image.grid()));
}

TensorHandle ModelImporter::gatherTokens(TensorHandle x, const std::vector<int32_t> &tokens, int64_t group,
                                         const std::string &other) {
  enter("gather_tokens");
  return wrap(tokensOf(b, loc, unwrap(x), tokens, group, other.empty() ? Value() : vector(other)));
}

TensorHandle ModelImporter::scaleColumns(TensorHandle x, const std::string &name) {
  enter(name);
  return wrap(columnsScaled(b, loc, unwrap(x), weight(name)));
}

TensorHandle ModelImporter::sideBySide(const std::vector<TensorHandle> &parts) {
  enter("side_by_side");
  return wrap(tensor::ConcatOp::create(b, loc, typeOf(unwrap(parts.front())).getRank() - 1, unwrap(parts)));
}

TensorHandle ModelImporter::repeatColumns(TensorHandle x, int64_t times) {
  enter("repeat_columns");
  return times == 1 ? x : wrap(columnsRepeated(b, loc, unwrap(x), times));
}

TensorHandle ModelImporter::unitRows(TensorHandle x) {
  enter("unit_rows");
  return wrap(rowsOfLengthOne(b, loc, unwrap(x)));
}

TensorHandle ModelImporter::similarities(TensorHandle x, TensorHandle y, const std::string &scale,
                                         const std::string &bias) {
  enter("similarities");
  return wrap(scaledProducts(b, loc, unwrap(x), unwrap(y), vector(scale), bias.empty() ? Value() : vector(bias)));
}

// In an encode attention knows which rows are a sequence: where all scores are 0, each token weighs as much as any other.
TensorHandle ModelImporter::meanToken(TensorHandle x) {
  enter("mean_token");
  if (config().family->isGraph)
    return wrap(meanOfTokens(b, loc, unwrap(x)));
  int64_t width = typeOf(unwrap(x)).getDimSize(2), heads = 1;
  while (width % heads || width / heads > 128)
    ++heads;
  Value narrow = unwrap(splitHeads(columns(x, 0, heads), heads)), values = unwrap(splitHeads(x, heads));
  enter("mean_token");
  auto seesAll = MaskAttr::get(b.getContext(), /*causal=*/false, /*window=*/0);
  Value means = AttentionOp::create(b, loc, values.getType(), narrow, narrow, values, Value(), Value(), Value(),
                                    Value(), Value(), ValueRange(), seesAll, b.getF64FloatAttr(0.0),
                                    b.getF64FloatAttr(0.0), DenseI64ArrayAttr(), DenseI64ArrayAttr());
  return firstTokens(mergeHeads(wrap(means)));
}

TensorHandle ModelImporter::runs(const std::string &name, int64_t length, int64_t width) {
  enter(name);
  auto type = RankedTensorType::get({dynamic, length ? length : dynamic, width}, b.getF32Type());
  return wrap(input(name, type, {batchName, length ? "" : "patches", ""}));
}

TensorHandle ModelImporter::joinRuns(TensorHandle x) {
  enter("join_runs");
  return wrap(runsJoined(b, loc, unwrap(x)));
}

TensorHandle ModelImporter::splitRuns(TensorHandle x, int64_t length) {
  enter("split_runs");
  return wrap(runsSplit(b, loc, unwrap(x), length));
}

TensorHandle ModelImporter::groupTokens(TensorHandle x, int64_t group, bool byColumn) {
  enter("group_tokens");
  return wrap(tokensGrouped(b, loc, unwrap(x), group, byColumn));
}

TensorHandle ModelImporter::rotated(TensorHandle heads, TensorHandle cosines, TensorHandle sines) {
  enter("rotated");
  return wrap(headsRotated(b, loc, unwrap(heads), unwrap(cosines), unwrap(sines)));
}

TensorHandle ModelImporter::keyBias(TensorHandle x) {
  enter("key_bias");
  return wrap(biasOfKeys(b, loc, unwrap(x)));
}

TensorHandle ModelImporter::addTable(TensorHandle x, const std::string &name) {
  enter(name);
  return wrap(tableAdded(b, loc, unwrap(x), weight(name)));
}

TensorHandle ModelImporter::windowAttention(TensorHandle q, TensorHandle k, TensorHandle v, int64_t heads,
                                            const WindowTerms &terms) {
  enter("attention");
  return wrap(attentionWithin(b, loc, {unwrap(q), unwrap(k), unwrap(v)}, heads, weight(terms.table), terms));
}

TensorHandle ModelImporter::splitHeads(TensorHandle input, int64_t heads) {
  enter("split_heads");
  Value x = unwrap(input);
  int64_t headDim = typeOf(x).getDimSize(2) / heads;
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  SmallVector<OpFoldResult> split = {sizes[0], sizes[1], b.getIndexAttr(heads), b.getIndexAttr(headDim)};
  auto expandedType = typeOf(x).clone({typeOf(x).getDimSize(0), typeOf(x).getDimSize(1), heads, headDim});
  SmallVector<ReassociationIndices> groups = {{0}, {1}, {2, 3}};
  Value expanded = tensor::ExpandShapeOp::create(b, loc, expandedType, x, groups, split);
  Value init = tensor::EmptyOp::create(b, loc, {split[0], split[2], split[1], split[3]}, b.getF32Type());
  return wrap(linalg::TransposeOp::create(b, loc, expanded, init, ArrayRef<int64_t>{0, 2, 1, 3}).getResult()[0]);
}

TensorHandle ModelImporter::mergeHeads(TensorHandle input) {
  enter("merge_heads");
  Value x = unwrap(input);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  Value init = tensor::EmptyOp::create(b, loc, {sizes[0], sizes[2], sizes[1], sizes[3]}, b.getF32Type());
  Value rows = linalg::TransposeOp::create(b, loc, x, init, ArrayRef<int64_t>{0, 2, 1, 3}).getResult()[0];
  SmallVector<ReassociationIndices> groups = {{0}, {1}, {2, 3}};
  return wrap(tensor::CollapseShapeOp::create(b, loc, rows, groups));
}

TensorHandle ModelImporter::rope(TensorHandle input, int64_t offset) {
  int64_t table = config().layerRope[layerIndex];
  if (config().ropes.empty() || table == noRope)
    return input;
  enter("rope");
  Value x = unwrap(input);
  float factor = 1.0f;
  std::vector<float> frequencies = config().ropes[table].inverseFrequency(false, factor, config().contextLength);
  const RopeConfig &rope = config().ropes[table];
  auto attr = RopeAttr::get(b.getContext(), rope.interleaved, table, b.getF64FloatAttr(factor),
                            b.getDenseF32ArrayAttr(frequencies),
                            rope.floor ? b.getF64FloatAttr(rope.growth) : FloatAttr(), rope.floor);
  return wrap(RopeOp::create(b, loc, x.getType(), x, positions, Value(), attr, b.getI64IntegerAttr(offset)));
}

Value ModelImporter::positionBias(const DistanceBias &bias) {
  bool hasBuckets = !bias.table.empty();
  if (!hasBuckets && bias.slopes.empty())
    return {};
  Value table = hasBuckets ? weight(WeightPart{bias.table}) : Value();
  if (!hasBuckets) {
    auto type = RankedTensorType::get({int64_t(bias.slopes.size())}, b.getF32Type());
    table = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, ArrayRef(bias.slopes)));
  }
  auto numbers = [&](const std::vector<int64_t> &list) {
    return hasBuckets ? b.getDenseI64ArrayAttr(list) : DenseI64ArrayAttr();
  };
  Value length = tensor::DimOp::create(b, loc, positions, 1);
  auto type = RankedTensorType::get({1, typeOf(table).getShape().back(), dynamic, dynamic}, b.getF32Type());
  return PositionBiasOp::create(b, loc, type, table, length, length, numbers(bias.starts), numbers(bias.rows));
}

TensorHandle ModelImporter::attention(TensorHandle query, TensorHandle keys, TensorHandle values,
                                      const AttentionTerms &terms) {
  // What a layer takes from outside are keys of a source, or of an earlier layer, which has put its prefix before them.
  bool isFromOutside = layerFunc && isa<BlockArgument>(unwrap(keys));
  TensorHandle k = isFromOutside ? keys : ofPrefix(keys, virtualKeys);
  TensorHandle v = isFromOutside ? values : ofPrefix(values, virtualValues);
  enter("attention");
  Value q = unwrap(query);
  double scale = config().attentionScale ? config().attentionScale : 1.0 / std::sqrt(double(typeOf(q).getDimSize(3)));
  if (config().scaleByLayer)
    scale /= double(layerIndex + 1);
  bool isGraph = config().family->isGraph;
  bool isSource = isFromOutside && config().family->isEncoderDecoder;
  bool attendsAhead = encodes && (config().attendsAhead || !config().embedsTexts);
  bool seesAll = isGraph ? !terms.causal : attendsAhead || isSource;
  bool hasWindow =
      !isGraph && !config().family->isEncoderDecoder && layerIndex >= 0; // before the first layer there is none
  int64_t window = hasWindow ? config().layerWindow[layerIndex] : 0;
  int64_t chunk = config().windowsAreChunks ? std::exchange(window, 0) : 0;
  bool seesGiven = config().tower && (config().tower->seen.seesAhead || config().tower->seen.promptSeesAhead);
  auto mask = MaskAttr::get(b.getContext(), !seesAll, window, /*ahead=*/seesAll ? window : 0, chunk,
                            /*given=*/!seesAll && seesGiven);
  Value globals;
  if (!terms.global.empty()) {
    layerOperands.push_back({{}, entry.getArguments().back()});
    globals = layerFunc.front().addArgument(positions.getType(), loc);
  }
  Value bias = terms.bias.value ? unwrap(terms.bias) : positionBias(terms.positions),
        sinks = terms.sinks.empty() ? Value() : weight(terms.sinks);
  Value ofTokens = terms.ofTokens.value ? unwrap(terms.ofTokens) : Value();
  auto runs = [&](const std::vector<int64_t> &list) {
    return ofTokens ? b.getDenseI64ArrayAttr(list) : DenseI64ArrayAttr();
  };
  return wrap(AttentionOp::create(b, loc, q.getType(), q, unwrap(k), unwrap(v), bias, ofTokens, sinks, Value(), globals,
                                  unwrap(terms.global), mask, b.getF64FloatAttr(scale),
                                  b.getF64FloatAttr(config().attentionSoftcap), runs(terms.positions.starts),
                                  runs(terms.positions.rows)));
}

// The projection stands in the encoder, which gives its result, and @forward takes that and hands it to the layer.
TensorHandle ModelImporter::ofSource(const LayerBody &project) {
  OpBuilder::InsertPoint inLayer = b.saveInsertionPoint();
  func::FuncOp layer = std::exchange(layerFunc, {});
  b.setInsertionPointToEnd(&encoder.front());
  Value result = unwrap(project(wrap(ofEncoder.front())));
  ofEncoder.push_back(result);
  b.restoreInsertionPoint(inLayer);
  layerFunc = layer;
  layerOperands.push_back({{}, entry.front().addArgument(result.getType(), result.getLoc())});
  return wrap(layerFunc.front().addArgument(result.getType(), result.getLoc()));
}

TensorHandle ModelImporter::latentAttention(TensorHandle query, TensorHandle latent, TensorHandle keyRope,
                                            const std::vector<TensorHandle> &keyUps,
                                            const std::vector<TensorHandle> &valueUps) {
  enter("attention");
  Value q = unwrap(query);
  SmallVector<Value> ups = unwrap(valueUps);
  auto mask = MaskAttr::get(b.getContext(), true, config().layerWindow[layerIndex]);
  auto type = typeOf(q).clone({dynamic, typeOf(q).getDimSize(1), dynamic, typeOf(ups.front()).getDimSize(0)});
  return wrap(LatentAttentionOp::create(b, loc, type, q, unwrap(latent), unwrap(keyRope), unwrap(keyUps), ups, mask,
                                        b.getF64FloatAttr(config().attentionScale),
                                        LatentFormAttr::get(b.getContext(), LatentForm::Materialised)));
}

TensorHandle ModelImporter::moe(TensorHandle input, const std::string &block, TensorHandle routed) {
  Value x = unwrap(input);
  const ExpertNames &names = config().family->experts;
  bool isFused = names.gateAndUp && !config().moe.splitGates;
  enter(block + "experts");
  std::string router = block + names.router;
  SmallVector<Value> gates, ups, downs, gateBiases, upBiases, downBiases;
  Value routerWeight = weight(router + ".weight");
  Value routerBias = has(router + ".bias") ? weight(router + ".bias") : Value();
  for (int64_t e = 0; e < config().moe.numExperts; ++e) {
    std::string expert = block + names.expert + std::to_string(e) + ".";
    auto project = [&](const char *name, SmallVector<Value> &matrices, SmallVector<Value> &biases) {
      matrices.push_back(weight(expert + name + ".weight"));
      if (has(expert + name + ".bias"))
        biases.push_back(weight(expert + name + ".bias"));
    };
    if (isFused && names.gateThenUp) { // the halves of one matrix
      int64_t width = config().moe.intermediateSize;
      auto push = [&](const std::string &name, SmallVector<Value> &ofGate, SmallVector<Value> &ofUp) {
        ofGate.push_back(weight(WeightPart{prefix + name, 0, width}));
        ofUp.push_back(weight(WeightPart{prefix + name, width, width}));
      };
      push(expert + names.gateAndUp + ".weight", gates, ups);
      if (std::string bias = expert + names.gateAndUp + ".bias"; has(bias))
        push(bias, gateBiases, upBiases);
      project(names.down, downs, downBiases);
      continue;
    }
    // The op calls what is activated a gate, whether something is multiplied with it or not.
    project(isFused ? names.gateAndUp : names.gate ? names.gate : names.up, gates, gateBiases);
    if (names.gate && !isFused)
      project(names.up, ups, upBiases);
    project(names.down, downs, downBiases);
  }
  const MoeConfig &moe = config().moe;
  Value correction = moe.hasCorrection ? weight(block + names.correction) : Value();
  Value scales = names.scales ? weight(block + names.scales) : Value();
  RoutingAttr routing;
  if (moe.sigmoidScores || moe.numGroups > 1 || moe.routedScale != 1.0 || moe.capacity || moe.jitter || moe.scalesInput)
    routing = RoutingAttr::get(b.getContext(), moe.sigmoidScores, moe.numGroups, moe.topGroups,
                               b.getF64FloatAttr(moe.routedScale), moe.capacity,
                               moe.jitter ? b.getF64FloatAttr(*moe.jitter) : FloatAttr(), moe.scalesInput);
  GatingAttr gating;
  if (moe.gateLimit > 0)
    gating = GatingAttr::get(b.getContext(), b.getF64FloatAttr(moe.gateLimit), b.getF64FloatAttr(moe.gateAlpha),
                             b.getF64FloatAttr(moe.upOffset));
  ActivationKind kind = activationKind(config().activation);
  return wrap(MoeOp::create(b, loc, x.getType(), x, routerWeight, routed.value ? unwrap(routed) : Value(), routerBias,
                            correction, scales, gates, ups, downs, gateBiases, upBiases, downBiases,
                            b.getI64IntegerAttr(moe.expertsPerToken), b.getBoolAttr(moe.normTopkProb), routing, gating,
                            ActivationKindAttr::get(b.getContext(), kind)));
}

TensorHandle ModelImporter::gatedExpert(TensorHandle input, const std::string &expert, const std::string &gate) {
  Value x = unwrap(input);
  const ExpertNames &names = config().family->experts;
  enter(expert);
  auto matrix = [&](const char *name) { return weight(expert + "." + name + ".weight"); };
  Value router = weight(gate + ".weight"), gates = matrix(names.gate), ups = matrix(names.up);
  // Of one expert each token chooses that one, by a score that its sigmoid is.
  auto routing = RoutingAttr::get(b.getContext(), /*sigmoid=*/true, 1, 1, FloatAttr(), 0, FloatAttr());
  return wrap(MoeOp::create(b, loc, x.getType(), x, router, Value(), Value(), Value(), Value(), gates, ups,
                            matrix(names.down), ValueRange(), ValueRange(), ValueRange(), b.getI64IntegerAttr(1),
                            b.getBoolAttr(false), routing, GatingAttr(),
                            ActivationKindAttr::get(b.getContext(), activationKind(config().activation))));
}
