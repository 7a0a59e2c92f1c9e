// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/families/Decoder.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

void rotateInWindowsOnly(ModelConfig &config) {
  for (size_t layer = 0; layer < config.layerRope.size(); ++layer)
    if (config.layerWindow[layer] == 0)
      config.layerRope[layer] = noRope;
}

void refuseOtherWindowBase(GgufKeys &keys, const ModelConfig &config) {
  const char *key = "rope.freq_base_swa";
  double own = config.ropes.empty() ? 0.0 : config.ropes.front().theta;
  if (double base = keys.number(key, own); base != own)
    keys.unsupported(keys.full(key) + " is " + std::to_string(base) + ", which is not supported for " +
                     config.architecture + "; expected " + keys.full("rope.freq_base") + " (" + std::to_string(own) +
                     ")");
}

void rotateWindowsApart(ModelConfig &config) {
  for (size_t layer = 0; layer < config.layerRope.size(); ++layer)
    config.layerRope[layer] = config.layerWindow[layer] > 0;
}

void readGlobalAndLocalRopes(JsonObject &object, ModelConfig &config) {
  double theta = object.number("rope_theta").value_or(config.family->defaults.ropeTheta);
  double localTheta = object.number("rope_local_base_freq").value_or(10000.0);
  readRopesByType(object, config, theta, localTheta, /*scalesBoth=*/false);
  rotateWindowsApart(config);
}

void rotateShare(RopeConfig &rope, double share, const ModelConfig &config) {
  RopeConfig plain;
  plain.theta = rope.theta;
  plain.rotaryDim = rope.rotaryDim;
  float factor = 1.0f;
  rope.stated = plain.inverseFrequency(false, factor, config.contextLength);
  auto rotated = static_cast<size_t>(static_cast<int64_t>(share * static_cast<double>(rope.rotaryDim)) / 2);
  for (size_t pair = 0; pair < rope.stated.size(); ++pair)
    rope.stated[pair] = pair < rotated ? rope.stated[pair] / static_cast<float>(rope.factor) : 0.0f;
}

// Of rope_type "proportional".
static RopeConfig readProportionalRope(JsonObject &rope, const ModelConfig &config) {
  RopeConfig out;
  out.theta = rope.number("rope_theta").value_or(out.theta);
  out.rotaryDim = config.headDim;
  out.factor = rope.number("factor").value_or(1.0);
  double share = rope.number("partial_rotary_factor").value_or(1.0);
  if (!(share > 0.0 && share <= 1.0))
    rope.fail("partial_rotary_factor", "is " + std::to_string(share) + ", expected a number above 0, at most 1");
  else if (!(out.factor > 0.0) || !(out.theta > 0.0) || config.headDim % 2 != 0)
    rope.fail("rope_theta", "and factor must be positive, and head_dim even");
  else
    rotateShare(out, share, config);
  return out;
}

void readTypedRopes(JsonObject &object, ModelConfig &config, const RopeConfig &full, const RopeConfig &sliding,
                    double share) {
  for (const char *key : {"rope_scaling", "rope_theta"})
    if (object.has(key))
      object.unsupported(key,
                         "is set, which is not supported for " + config.architecture + "; expected rope_parameters");
  config.ropes = {full, sliding};
  if (!object.has("rope_parameters"))
    return;
  const char *types[] = {"full_attention", "sliding_attention"};
  JsonObject ropes = object.object("rope_parameters");
  for (size_t type = 0; type < 2; ++type) {
    bool isNeeded = false;
    for (int64_t window : config.layerWindow)
      isNeeded |= (window > 0) == (type == 1);
    JsonObject rope = ropes.object(types[type]);
    if (isNeeded && !rope.has("rope_theta"))
      rope.fail("rope_theta", "is missing");
    if (isNeeded && rope.find("rope_type").equals("proportional")) {
      config.ropes[type] = readProportionalRope(rope, config);
    } else if (isNeeded) {
      RopeConfig &read = config.ropes[type] = readRope(rope, object, config, /*theta=*/0);
      double ofPlain = read.scaling == RopeScalingKind::None ? share : 1.0;
      double stated = rope.number("partial_rotary_factor").value_or(ofPlain);
      if (config.family->rope.partial && rope.status().isOk())
        read.rotaryDim = static_cast<int64_t>(static_cast<double>(config.headDim) * stated);
    }
    ropes.adopt(rope);
  }
  readCommonTruncate(ropes, config);
  object.adopt(ropes);
}

void rotateButEvery(ModelConfig &config, int64_t interval) {
  for (int64_t layer = interval - 1; layer < config.numHiddenLayers; layer += interval)
    config.layerRope[layer] = noRope;
}

void readNoRopeLayers(JsonObject &object, ModelConfig &config, bool emptyIsAbsent) {
  int64_t interval = object.integer("no_rope_layer_interval").value_or(4);
  std::vector<int64_t> rotates = object.integers("no_rope_layers");
  if (!object.has("no_rope_layers") || (emptyIsAbsent && rotates.empty())) {
    if (interval < 1)
      return object.fail("no_rope_layer_interval", "is " + std::to_string(interval) + ", expected at least 1");
    return rotateButEvery(config, interval);
  }
  if (rotates.size() != static_cast<size_t>(config.numHiddenLayers))
    return object.fail("no_rope_layers", "has " + std::to_string(rotates.size()) +
                                             " entries, expected num_hidden_layers (" +
                                             std::to_string(config.numHiddenLayers) + ")");
  for (size_t layer = 0; layer < rotates.size(); ++layer)
    config.layerRope[layer] = rotates[layer] ? 0 : noRope;
}

TensorHandle norm(ModelBuilder &b, TensorHandle x, const std::string &name) {
  return b.config().family->norm == NormKind::Layer && !b.config().hasRmsNorms ? b.layerNorm(x, name)
                                                                               : b.rmsNorm(x, name);
}

// One of query and key: its heads, normed and rotated in the family's order.
static TensorHandle rotatedHeads(ModelBuilder &b, TensorHandle rows, int64_t heads, const std::string &normName) {
  HeadNorms order = b.config().family->headNorms;
  auto normed = [&](HeadNorms place, TensorHandle x) {
    return order == place && b.has(normName + ".weight") ? norm(b, x, normName) : x;
  };
  TensorHandle split = b.splitHeads(b.clip(normed(HeadNorms::AllHeads, rows), b.config().clipQkv), heads);
  return normed(HeadNorms::Rotated, b.rope(normed(HeadNorms::EachHead, split)));
}

TensorHandle selfAttention(ModelBuilder &b, TensorHandle x, const AttentionTerms &terms,
                           const ModelBuilder::LayerBody &behind) {
  return selfAttentionOf(b, /*layer=*/-1, x, terms, behind);
}

TensorHandle selfAttentionOf(ModelBuilder &b, int64_t layer, TensorHandle x, const AttentionTerms &terms,
                             const ModelBuilder::LayerBody &behind) {
  const ModelConfig &c = b.config();
  int64_t heads = c.headsOf(layer), kvHeads = c.shapeOf(layer).numKvHeads;
  const AttentionNames &names = c.family->attention;
  const std::string block = names.block;
  TensorHandle q = rotatedHeads(b, b.linear(x, block + names.q), heads, block + names.qNorm);
  TensorHandle k = rotatedHeads(b, b.linear(x, block + names.k), kvHeads, block + names.kNorm);
  TensorHandle v = b.splitHeads(b.clip(b.linear(x, block + names.v), c.clipQkv), kvHeads);
  TensorHandle attended = b.mergeHeads(b.attention(q, k, v, terms));
  return b.linear(behind ? behind(attended) : attended, block + names.output);
}

TensorHandle fusedSelfAttention(ModelBuilder &b, TensorHandle x, const std::string &qkv, const std::string &output,
                                const AttentionTerms &terms, int64_t layer) {
  return b.linear(fusedAttention(b, x, qkv, terms, layer), output);
}

TensorHandle fusedAttention(ModelBuilder &b, TensorHandle x, const std::string &qkv, const AttentionTerms &terms,
                            int64_t layer) {
  const ModelConfig &c = b.config();
  int64_t heads = c.headsOf(layer), kvHeads = c.shapeOf(layer).numKvHeads;
  int64_t qWidth = heads * c.headDim, kvWidth = kvHeads * c.headDim;
  const AttentionNames &names = c.family->attention;
  const std::string block = names.block;
  TensorHandle all = b.linear(x, qkv);
  TensorHandle q = rotatedHeads(b, b.columns(all, 0, qWidth), heads, block + names.qNorm);
  TensorHandle k = rotatedHeads(b, b.columns(all, qWidth, qWidth + kvWidth), kvHeads, block + names.kNorm);
  TensorHandle values = b.clip(b.columns(all, qWidth + kvWidth, qWidth + 2 * kvWidth), c.clipQkv);
  TensorHandle v = b.splitHeads(values, kvHeads);
  return b.mergeHeads(b.attention(q, k, v, terms));
}

TensorHandle feedForward(ModelBuilder &b, TensorHandle x) {
  const FeedForwardNames &names = b.config().family->feedForward;
  const std::string block = names.block;
  TensorHandle gate = names.gate ? b.linear(x, block + names.gate) : TensorHandle();
  TensorHandle up = b.linear(x, block + names.up);
  return b.linear(names.gate ? b.glu(gate, up) : b.activation(up), block + names.down);
}

TensorHandle fusedFeedForward(ModelBuilder &b, TensorHandle x) {
  int64_t width = b.config().intermediateSize;
  TensorHandle gateUp = b.linear(x, "mlp.gate_up_proj");
  return b.linear(b.glu(b.columns(gateUp, 0, width), b.columns(gateUp, width, 2 * width)), "mlp.down_proj");
}

TensorHandle gatedFeedForward(ModelBuilder &b, TensorHandle x, const std::string &scope) {
  TensorHandle gate = b.linear(x, scope + ".gate_proj");
  TensorHandle up = b.linear(x, scope + ".up_proj");
  return b.linear(b.glu(gate, up), scope + ".down_proj");
}

TensorHandle layerFeedForward(ModelBuilder &b, int64_t layer, TensorHandle x) {
  const MoeConfig &moe = b.config().moe;
  if (!moe.numExperts || !moe.layerIsMoe[layer])
    return feedForward(b, x);
  TensorHandle routed = b.moe(x, b.config().family->experts.block);
  if (!moe.sharedIntermediateSize)
    return routed;
  const ExpertNames &names = b.config().family->experts;
  std::string shared = std::string(names.block) + names.shared;
  TensorHandle both =
      b.add(routed, names.sharedGate ? b.gatedExpert(x, shared, std::string(names.block) + names.sharedGate)
                                     : gatedFeedForward(b, x, shared));
  return b.scale(both, moe.averagesShared ? 0.5 : 1.0);
}

TensorHandle decoderLayers(ModelBuilder &b, const std::string &scope, TensorHandle x, const DecoderLayer &body) {
  const ModelConfig *tower = b.config().tower.get();
  auto deep = int64_t(tower ? tower->seen.deepLayers.size() : 0);
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i) {
    x = b.layer(i, scope + std::to_string(i) + ".", x, [&](TensorHandle x) { return body(i, x); });
    if (i < deep)
      x = b.add(x, b.givenBeside(i));
  }
  return x;
}

void finishDecoder(ModelBuilder &b, TensorHandle x) {
  const Family &family = *b.config().family;
  if (b.config().embedsTexts)
    return b.output("last_hidden_state", x);
  b.finish(x, b.config().tieWordEmbeddings ? family.embedding : family.head);
}

void buildDecoder(ModelBuilder &b, const DecoderLayer &body) {
  TensorHandle x = decoderLayers(b, "model.layers.", b.embedTokens("model.embed_tokens.weight"), body);
  finishDecoder(b, norm(b, x, b.config().family->finalNorm));
}

TensorHandle preNormLayer(ModelBuilder &b, int64_t layer, TensorHandle x, const AttentionTerms &terms) {
  const ModelConfig &c = b.config();
  auto addTo = [&](TensorHandle x, TensorHandle block) { return b.add(x, b.scale(block, c.residualScale)); };
  TensorHandle normed = norm(b, x, "input_layernorm");
  x = addTo(x, selfAttention(b, normed, terms));
  if (!c.parallelResidual)
    normed = norm(b, x, "post_attention_layernorm");
  return addTo(x, layerFeedForward(b, layer, normed));
}

void buildPreNormDecoder(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) { return preNormLayer(b, layer, x); });
}

void buildPostNormDecoder(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    x = b.add(x, norm(b, selfAttention(b, x), "post_attention_layernorm"));
    return b.add(x, norm(b, layerFeedForward(b, layer, x), "post_feedforward_layernorm"));
  });
}

} // namespace heddle
