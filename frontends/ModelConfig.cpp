// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The checks that all readers share. A config that passes is one that a family can compute with, without asking again.
#include "frontends/ModelConfig.h"
#include "bytes/Status.h"
#include "frontends/Family.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace heddle {

bool isSameTensor(const Checkpoint &checkpoint, const TensorInfo &a, const TensorInfo &b) {
  return a.type == b.type && a.shape == b.shape && a.bytes == b.bytes &&
         std::memcmp(checkpoint.data(a), checkpoint.data(b), a.bytes) == 0;
}

namespace {

// What a key is called where, and the range of an integer one. The upper limits bound memory and keep products of two
// sizes within 64 bits; the largest published models stay far below them.
struct Field {
  const char *name, *gguf;
  int64_t ModelConfig::*member;
  int64_t low, high;
};
constexpr Field fields[] = {
    {"num_hidden_layers", "block_count", &ModelConfig::numHiddenLayers, 1, 4096},
    {"hidden_size", "embedding_length", &ModelConfig::hiddenSize, 1, 1 << 20},
    {"num_attention_heads", "attention.head_count", &ModelConfig::numHeads, 1, 1 << 16},
    {"num_key_value_heads", "attention.head_count_kv", &ModelConfig::numKvHeads, 1, 1 << 16},
    {"head_dim", "attention.key_length", &ModelConfig::headDim, 1, 1 << 16},
    {"intermediate_size", "feed_forward_length", &ModelConfig::intermediateSize, 1, 1 << 24},
    {"vocab_size", "vocab_size", &ModelConfig::vocabSize, 1, 1 << 24},
    {"max_position_embeddings", "context_length", &ModelConfig::contextLength, 1, 1 << 30},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", nullptr, 0, 0},
    {"rope_theta", "rope.freq_base", nullptr, 0, 0},
    {"partial_rotary_factor", "rope.dimension_count", nullptr, 0, 0},
    {"rope_scaling", "rope.scaling", nullptr, 0, 0},
    {"factor", "factor", nullptr, 0, 0},
    {"sliding_window", "attention.sliding_window", nullptr, 0, 0},
    {"num_local_experts", "expert_count", nullptr, 0, 0},
    {"num_experts_per_tok", "expert_used_count", nullptr, 0, 0},
    {"moe_intermediate_size", "expert_feed_forward_length", nullptr, 0, 0},
    {"attn_logit_softcapping", "attn_logit_softcapping", nullptr, 0, 0},
    {"final_logit_softcapping", "final_logit_softcapping", nullptr, 0, 0},
    {"query_pre_attn_scalar", "attention.scale", nullptr, 0, 0},
    {"embedding_multiplier", "embedding_scale", nullptr, 0, 0},
    {"residual_multiplier", "residual_scale", nullptr, 0, 0},
    {"logit_scale", "logit_scale", nullptr, 0, 0},
    {"clip_qkv", "attention.clamp_kqv", nullptr, 0, 0},
    {"n_group", "expert_group_count", nullptr, 0, 0},
    {"topk_group", "expert_group_used_count", nullptr, 0, 0},
    {"routed_scaling_factor", "expert_weights_scale", nullptr, 0, 0},
    {"n_shared_experts", "expert_shared_count", nullptr, 0, 0},
    {"kv_lora_rank", "attention.kv_lora_rank", nullptr, 0, 0},
    {"q_lora_rank", "attention.q_lora_rank", nullptr, 0, 0},
    {"qk_nope_head_dim", "attention.key_length_mla", nullptr, 0, 0},
    {"qk_rope_head_dim", "rope.dimension_count", nullptr, 0, 0},
    {"conv_L_cache", "shortconv.l_cache", nullptr, 0, 0},
    {"linear_num_key_heads", "ssm.group_count", nullptr, 0, 0},
    {"linear_num_value_heads", "ssm.time_step_rank", nullptr, 0, 0},
    {"linear_key_head_dim", "ssm.state_size", nullptr, 0, 0},
    {"linear_value_head_dim", "ssm.inner_size", nullptr, 0, 0},
    {"v_head_dim", "attention.value_length_mla", nullptr, 0, 0},
};
constexpr int64_t maxExperts = 1 << 12;
// Of a row of queries: num_attention_heads by head_dim.
constexpr int64_t maxRowValues = 1 << 24;
constexpr int64_t maxWindow = 1 << 30; // in tokens
constexpr int64_t widestConv = 64;     // in tokens
constexpr int64_t mostStateHeads = 1 << 12, mostValueHeads = 1 << 16, widestStateHead = 1 << 10;
// Of a head or a latent: attention keeps rows of a tile in the cache of a core.
constexpr int64_t maxLatentDim = 1024;

std::string shown(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%g", value);
  return text;
}

bool isPositive(double value) {
  return std::isfinite(value) && value > 0.0;
}

// Compares a config with itself.
class ConfigChecker {
public:
  ConfigChecker(const ModelConfig &config, const std::string &file) : config(config), file(file) {}
  Status check();
  Status checkIds();
  Status checkGeneration();

private:
  Status checkHeads();
  Status checkNumbers();
  Status checkLayers();
  Status checkRope(const RopeConfig &rope);
  Status checkScaling(const RopeConfig &rope);
  Status checkFactors(const RopeConfig &rope);
  Status checkMoe();
  Status fail(std::string_view name, const std::string &what) const {
    return errorOf(config, file, fieldName(config, name), fieldName(config, name) + " " + what);
  }
  // Of a key of a rotation: within rope_parameters, where config.json has it there, else `outside`.
  Status failRope(const std::string &name, const std::string &outside, const std::string &what) const {
    std::string key = "rope_parameters." + name;
    if (!config.valueOffsets.count(placeKey(file, key)))
      key = outside;
    return errorOf(config, file, key, key + " " + what);
  }
  Status failPartial(const std::string &what) const {
    return failRope("partial_rotary_factor", fieldName(config, "partial_rotary_factor"), what);
  }
  Status failScaling(const std::string &name, const std::string &what) const {
    return failRope(name, fieldName(config, "rope_scaling") + "." + name, what);
  }
  Status failScaling(const char *name, double value, const char *expected) const {
    return failScaling(name, "is " + shown(value) + ", expected " + expected);
  }

  const ModelConfig &config;
  const std::string &file;
};

Status ConfigChecker::checkHeads() {
  for (int64_t layer = -1; layer < static_cast<int64_t>(config.layerShapes.size()); ++layer) {
    LayerShape shape = config.shapeOf(layer);
    int64_t heads = config.headsOf(layer);
    std::string where = layer < 0 ? "" : " of layer " + std::to_string(layer);
    for (auto [name, size] : {std::pair<const char *, int64_t>{"num_attention_heads", heads},
                              {"num_key_value_heads", shape.numKvHeads},
                              {"head_dim", shape.headDim},
                              {"intermediate_size", shape.intermediateSize}})
      if (layer >= 0 && size < 1)
        return fail(name, "is " + std::to_string(size) + where + ", expected a positive number");
    if (heads % shape.numKvHeads != 0)
      return fail("num_attention_heads", "(" + std::to_string(heads) + ") must be a multiple of " +
                                             fieldName(config, "num_key_value_heads") + where + " (" +
                                             std::to_string(shape.numKvHeads) + ")");
    if (heads > maxRowValues / shape.headDim)
      return fail("num_attention_heads", "(" + std::to_string(heads) + ") by " + fieldName(config, "head_dim") + where +
                                             " (" + std::to_string(shape.headDim) + ") is " +
                                             std::to_string(heads * shape.headDim) + ", expected at most " +
                                             std::to_string(maxRowValues));
  }
  const RecurrentConfig &state = config.recurrent;
  if (state.isLinear && state.numValueHeads % state.numKeyHeads != 0)
    return fail("linear_num_value_heads", "(" + std::to_string(state.numValueHeads) + ") must be a multiple of " +
                                              fieldName(config, "linear_num_key_heads") + " (" +
                                              std::to_string(state.numKeyHeads) + ")");
  const LatentConfig &latent = config.latent;
  if (latent.enabled && latent.kvLoraRank + latent.qkRopeHeadDim > maxLatentDim)
    return fail("kv_lora_rank", "(" + std::to_string(latent.kvLoraRank) + ") and " +
                                    fieldName(config, "qk_rope_head_dim") + " (" +
                                    std::to_string(latent.qkRopeHeadDim) + ") are more than " +
                                    std::to_string(maxLatentDim) + " together");
  return Status();
}

Status ConfigChecker::checkNumbers() {
  if (config.hasPooler && !config.poolerActivation)
    return fail("pooler_act", "is no activation that is known");
  if (config.hasPooler && config.poolerSize && config.poolerSize != config.hiddenSize)
    return fail("pooler_output_size", "is not hidden_size, which is not supported").as(StatusCode::Unsupported);
  if (!isPositive(config.normEps) || config.normEps >= 1.0)
    return fail("rms_norm_eps", "is " + shown(config.normEps) + ", expected a number above 0 and below 1");
  for (auto [name, value] : {std::pair<const char *, double>{"embedding_multiplier", config.embeddingScale},
                             {"residual_multiplier", config.residualScale},
                             {"logit_scale", config.logitScale}})
    if (!isPositive(value))
      return fail(name, "is " + shown(value) + ", expected a positive number");
  for (auto [name, value] : {std::pair<const char *, double>{"attn_logit_softcapping", config.attentionSoftcap},
                             {"final_logit_softcapping", config.finalSoftcap},
                             {"clip_qkv", config.clipQkv},
                             {"query_pre_attn_scalar", config.attentionScale}})
    if (!std::isfinite(value) || value < 0.0)
      return fail(name, "is " + shown(value) + ", expected a positive number");
  return Status();
}

Status ConfigChecker::checkLayers() {
  [[maybe_unused]] size_t layers = static_cast<size_t>(config.numHiddenLayers);
  assert(config.layerWindow.size() == layers && config.layerRope.size() == layers &&
         config.moe.layerIsMoe.size() == layers);
  for (int64_t window : config.layerWindow) {
    if (window < 0)
      return fail("sliding_window", "is negative (" + std::to_string(window) + ")");
    if (window > maxWindow)
      return fail("sliding_window", "is " + std::to_string(window) + ", expected at most " + std::to_string(maxWindow));
  }
  int64_t convWidth = config.recurrent.convWidth;
  if (config.hasStates() && config.recurrent.hasConv && (convWidth < 2 || convWidth > widestConv))
    return fail("conv_L_cache", "is " + std::to_string(convWidth) + ", expected 2 to " + std::to_string(widestConv));
  return Status();
}

Status ConfigChecker::checkFactors(const RopeConfig &rope) {
  bool isLongrope = rope.scaling == RopeScalingKind::Longrope;
  for (auto [name, factors] : {std::pair<const char *, const std::vector<double> &>{"short_factor", rope.shortFactor},
                               {"long_factor", rope.longFactor}}) {
    if (factors.empty() && !isLongrope)
      continue;
    if (factors.size() != static_cast<size_t>(rope.rotaryDim / 2))
      return failScaling(name, "has " + std::to_string(factors.size()) + " values, expected half of the " +
                                   std::to_string(rope.rotaryDim) + " rotary dimensions");
    for (double factor : factors)
      if (!isPositive(factor))
        return failScaling(name, factor, "positive numbers");
  }
  return Status();
}

Status ConfigChecker::checkScaling(const RopeConfig &rope) {
  HEDDLE_RETURN_IF_ERROR(checkFactors(rope));
  if (rope.scaling == RopeScalingKind::None)
    return Status();
  if (!isPositive(rope.factor))
    return failScaling("factor", rope.factor, "a positive number");
  if (rope.attentionFactor && !isPositive(*rope.attentionFactor))
    return failScaling("attention_factor", *rope.attentionFactor, "a positive number");
  if (rope.longAttentionFactor && !isPositive(*rope.longAttentionFactor))
    return failScaling("long_mscale", *rope.longAttentionFactor, "a positive number");
  if (rope.scaling != RopeScalingKind::Linear && (rope.originalContext < 2 || rope.originalContext > 1 << 30))
    return failScaling("original_max_position_embeddings", static_cast<double>(rope.originalContext),
                       "a length from 2 to 2^30");
  if (rope.scaling == RopeScalingKind::Dynamic && rope.rotaryDim < 4)
    return failPartial("gives " + std::to_string(rope.rotaryDim) + " rotary dimensions, dynamic scaling needs 4");
  if (rope.scaling == RopeScalingKind::Llama3) {
    if (!isPositive(rope.lowFreqFactor))
      return failScaling("low_freq_factor", rope.lowFreqFactor, "a positive number");
    if (!isPositive(rope.highFreqFactor) || rope.highFreqFactor < rope.lowFreqFactor)
      return failScaling("high_freq_factor", rope.highFreqFactor, "a number from low_freq_factor on");
  }
  if (rope.scaling == RopeScalingKind::Yarn) {
    for (auto [name, value] :
         {std::pair<const char *, double>{"beta_fast", rope.betaFast}, {"beta_slow", rope.betaSlow}})
      if (!isPositive(value))
        return failScaling(name, value, "a positive number");
    for (auto [name, value] :
         {std::pair<const char *, double>{"mscale", rope.mscale}, {"mscale_all_dim", rope.mscaleAllDim}})
      if (!std::isfinite(value) || value < 0.0)
        return failScaling(name, value, "a positive number");
  }
  return Status();
}

Status ConfigChecker::checkRope(const RopeConfig &rope) {
  if (!isPositive(rope.theta) || (rope.scaling == RopeScalingKind::Yarn && rope.theta == 1.0))
    return fail("rope_theta", "is " + shown(rope.theta) + ", expected a finite number above 0" +
                                  (rope.theta == 1.0 ? " other than 1" : ""));
  if (config.latent.enabled && (rope.rotaryDim != config.latent.qkRopeHeadDim || rope.rotaryDim % 2 != 0))
    return fail("qk_rope_head_dim",
                "is " + std::to_string(config.latent.qkRopeHeadDim) + ", expected an even number, all of it rotated");
  // Of the narrowest head that rotates so.
  std::optional<int64_t> narrowest;
  for (size_t layer = 0; layer < config.layerShapes.size(); ++layer)
    if (config.layerRope[layer] == &rope - config.ropes.data())
      narrowest = std::min(narrowest.value_or(maxRowValues), config.layerShapes[layer].headDim);
  int64_t headDim = narrowest.value_or(config.headDim);
  if (rope.rotaryDim < 2 || rope.rotaryDim > headDim || rope.rotaryDim % 2 != 0)
    return failPartial("and " + fieldName(config, "head_dim") + " (" + std::to_string(headDim) + ") give " +
                       std::to_string(rope.rotaryDim) +
                       " rotary dimensions, expected an even number from 2 to head_dim");
  return checkScaling(rope);
}

Status ConfigChecker::checkMoe() {
  const MoeConfig &moe = config.moe;
  if (moe.numExperts == 0)
    return Status();
  if (moe.expertsPerToken < 1 || moe.expertsPerToken > moe.numExperts)
    return fail("num_experts_per_tok", "is " + std::to_string(moe.expertsPerToken) + ", expected 1 to " +
                                           fieldName(config, "num_local_experts") + " (" +
                                           std::to_string(moe.numExperts) + ")");
  if (moe.numGroups < 1 || moe.numExperts % moe.numGroups != 0)
    return fail("n_group", "is " + std::to_string(moe.numGroups) + ", expected a divisor of " +
                               fieldName(config, "num_local_experts") + " (" + std::to_string(moe.numExperts) + ")");
  int64_t perGroup = moe.numExperts / moe.numGroups;
  if (moe.topGroups < 1 || moe.topGroups > moe.numGroups || moe.topGroups * perGroup < moe.expertsPerToken)
    return fail("topk_group", "is " + std::to_string(moe.topGroups) + ", expected at most " +
                                  std::to_string(moe.numGroups) + " groups of " + std::to_string(perGroup) +
                                  " experts that hold " + fieldName(config, "num_experts_per_tok") + " (" +
                                  std::to_string(moe.expertsPerToken) + ")");
  if (moe.hasCorrection && moe.numGroups > 1 && perGroup < 2)
    return fail("n_group", "is " + std::to_string(moe.numGroups) + ", expected groups of at least 2 experts");
  if (moe.jitter && !(*moe.jitter >= 0.0 && std::isfinite(*moe.jitter)))
    return fail("router_jitter_noise", "is " + shown(*moe.jitter) + ", expected a number from 0");
  if (!isPositive(moe.routedScale))
    return fail("routed_scaling_factor", "is " + shown(moe.routedScale) + ", expected a positive number");
  return Status();
}

Status ConfigChecker::checkIds() {
  auto check = [&](const char *name, int64_t id) -> Status {
    if (id >= 0 && id < config.vocabSize)
      return Status();
    return errorOf(config, file, name,
                   std::string(name) + " is " + std::to_string(id) + ", expected a token below " +
                       fieldName(config, "vocab_size") + " (" + std::to_string(config.vocabSize) + ")");
  };
  for (auto [name, id] : {std::pair<const char *, std::optional<int64_t>>{"bos_token_id", config.bosId},
                          {"pad_token_id", config.padId},
                          {"decoder_start_token_id", config.decoderStartId},
                          {"forced_bos_token_id", config.forcedBosId},
                          {"forced_eos_token_id", config.forcedEosId}})
    if (id)
      HEDDLE_RETURN_IF_ERROR(check(name, *id));
  for (auto [name, ids] : {std::pair<const char *, const std::vector<int64_t> &>{"eos_token_id", config.eosIds},
                           {"suppress_tokens", config.suppressed},
                           {"begin_suppress_tokens", config.suppressedFirst}})
    for (int64_t id : ids)
      HEDDLE_RETURN_IF_ERROR(check(name, id));
  for (const std::vector<int64_t> &word : config.badWords)
    for (int64_t id : word)
      HEDDLE_RETURN_IF_ERROR(check("bad_words_ids", id));
  return Status();
}

Status ConfigChecker::checkGeneration() {
  auto fail = [&](const char *name, double value, const char *expected) -> Status {
    return errorOf(config, file, name,
                   std::string("generation default ") + name + " is " + shown(value) + ", expected " + expected);
  };
  if (!std::isfinite(config.temperature) || config.temperature < 0.0)
    return fail("temperature", config.temperature, "a number from 0");
  if (!isPositive(config.topP) || config.topP > 1.0)
    return fail("top_p", config.topP, "a number above 0, at most 1");
  if (!(config.minP >= 0.0 && config.minP <= 1.0))
    return fail("min_p", config.minP, "a number from 0 to 1");
  if (!isPositive(config.repetitionPenalty))
    return fail("repetition_penalty", config.repetitionPenalty, "a positive number");
  if (!std::isfinite(config.lengthPenalty) || std::abs(config.lengthPenalty) > 100)
    return fail("length_penalty", config.lengthPenalty, "a number from -100 to 100");
  if (config.numBeams < 1 || config.numBeams > 256)
    return fail("num_beams", static_cast<double>(config.numBeams), "a number from 1 to 256");
  if (config.noRepeatNgram < 0 || config.noRepeatNgram > maxWindow)
    return fail("no_repeat_ngram_size", static_cast<double>(config.noRepeatNgram), "a number from 0");
  if (config.topK < 0)
    return fail("top_k", static_cast<double>(config.topK), "a number from 0");
  return Status();
}

Status ConfigChecker::check() {
  HEDDLE_RETURN_IF_ERROR(validateSizes(config, file));
  for (Status (ConfigChecker::*step)() :
       {&ConfigChecker::checkHeads, &ConfigChecker::checkNumbers, &ConfigChecker::checkLayers, &ConfigChecker::checkMoe,
        &ConfigChecker::checkIds, &ConfigChecker::checkGeneration})
    HEDDLE_RETURN_IF_ERROR((this->*step)());
  for (const RopeConfig &rope : config.ropes)
    HEDDLE_RETURN_IF_ERROR(checkRope(rope));
  return Status();
}

// Compares the tensors with the config.
class TensorChecker {
public:
  explicit TensorChecker(const Model &model) : config(model.config), checkpoint(model.checkpoint) {}
  Status check();

private:
  Status checkTensor(const ModelConfig &part, const TensorRule &rule, int64_t layer, int64_t expert);
  Status checkTied();
  // Whether the model may hold the tensor, beside the embedding that it repeats.
  bool isEmbeddingAgain(std::string_view name) const;
  Status checkUnread();
  Status fail(const TensorInfo &tensor, const std::string &what) const {
    return errorIn(checkpoint.files[tensor.file]->path(), what);
  }

  const ModelConfig &config;
  const Checkpoint &checkpoint;
  std::set<std::string, std::less<>> asked;
};

bool isWeightType(TensorType type) {
  return type == TensorType::F32 || type == TensorType::F16 || type == TensorType::BF16 ||
         (tensorTypeInfo(type).blockValues > 1 && type != TensorType::NVFP4); // which readers turn into another
}

Status TensorChecker::checkTensor(const ModelConfig &part, const TensorRule &rule, int64_t layer, int64_t expert) {
  std::string name = tensorName(rule.name, layer, expert);
  const TensorInfo *tensor = checkpoint.find(name);
  if (part.source == "gguf")
    name += " (" + tensorName(rule.gguf, layer, expert) + ")";
  else if (tensor && !tensor->storedAs.empty())
    name += " (" + tensor->storedAs + ")";
  if (!tensor)
    return errorIn(
        checkpoint.files.front()->path(),
        "tensor " + name + " is missing" + (rule.when == When::Untied ? ", and tie_word_embeddings is false" : "") +
            (checkpoint.files.size() > 1 ? " in all " + std::to_string(checkpoint.files.size()) + " files" : ""));
  std::vector<int64_t> expected = {dimension(rule.rows, part, layer)};
  if (rule.columns != ConfigDim::None)
    expected.push_back(dimension(rule.columns, part, layer));
  if (tensor->shape != expected)
    return fail(*tensor, "tensor " + name + " has shape " + shapeText(tensor->shape) + ", the config asks for " +
                             shapeText(expected) + (rule.rows == ConfigDim::Vocab ? " (vocab_size, hidden_size)" : ""));
  bool plain = tensorTypeInfo(tensor->type).blockValues == 1;
  if (!isWeightType(tensor->type) || (rule.columns == ConfigDim::None && !plain))
    return fail(*tensor, "tensor " + name + " has type " + tensorTypeInfo(tensor->type).name + ", expected f32, f16" +
                             (rule.columns == ConfigDim::None ? " or bf16" : ", bf16 or a block type"));
  return Status();
}

bool TensorChecker::isEmbeddingAgain(std::string_view name) const {
  const Listing<const char *> &copies = config.family->embeddingCopies;
  return (config.tieWordEmbeddings && !config.embedsTexts && name == config.family->head) ||
         (!config.hasOwnEmbeddings && std::find(copies.begin(), copies.end(), name) != copies.end());
}

// A tied model may repeat its embeddings as the head; two different ones contradict the flag. An encoder-decoder may repeat what its stacks
// share, if they do.
Status TensorChecker::checkTied() {
  const char *name = config.family->embedding;
  const TensorInfo *embedding = checkpoint.find(name);
  for (const auto &[copyName, tensor] : checkpoint.tensors) {
    if (!embedding || !isEmbeddingAgain(copyName))
      continue;
    if (!isSameTensor(checkpoint, tensor, *embedding))
      return fail(tensor, (copyName == config.family->head ? "tie_word_embeddings is true, but " : "") + copyName +
                              " differs from " + name)
          .ofTensor(copyName);
  }
  return Status();
}

// A tensor that nobody asks for changes what the model computes: better refused than ignored.
Status TensorChecker::checkUnread() {
  const std::pair<const std::string, TensorInfo> *unread = nullptr;
  size_t count = 0;
  for (const auto &entry : checkpoint.tensors) {
    bool isTiedHead = isEmbeddingAgain(entry.first);
    bool isEmpty = entry.second.bytes == 0;
    std::vector<const ModelConfig *> parts = config.parts();
    bool isKnown = std::any_of(parts.begin(), parts.end(),
                               [&](const ModelConfig *part) { return findUnread(*part, entry.first); });
    if (asked.count(entry.first) || isTiedHead || isEmpty || isKnown)
      continue;
    unread = unread ? unread : &entry;
    ++count;
  }
  if (!unread)
    return Status();
  return fail(unread->second, "tensor '" + printable(unread->first) + "' " +
                                  (count > 1 ? "and " + std::to_string(count - 1) + " more are" : "is") +
                                  " not part of a model of architecture '" + config.architecture + "' with " +
                                  fieldName(config, "num_hidden_layers") + " " +
                                  std::to_string(config.numHiddenLayers) + " as its config describes it")
      .ofTensor(unread->first);
}

Status TensorChecker::check() {
  for (const ModelConfig *part : config.parts())
    HEDDLE_RETURN_IF_ERROR(forEachTensor(*part, [&](const TensorRule &rule, int64_t layer, int64_t expert) {
      std::string name = tensorName(rule.name, layer, expert);
      asked.insert(name);
      return checkTensor(*part, rule, layer, expert).ofTensor(name);
    }));
  HEDDLE_RETURN_IF_ERROR(checkTied());
  return checkUnread();
}

} // namespace

std::string fieldName(const ModelConfig &config, std::string_view name) {
  if (!config.family)
    return std::string(name);
  bool isGguf = config.source == "gguf";
  std::string prefix = isGguf ? config.ggufArchitecture + "." : "";
  auto spelled = [&](const std::string &own) {
    auto alias = config.spelled.find(own);
    return alias == config.spelled.end() ? own : alias->second;
  };
  for (const KeyName &key : config.family->keyNames)
    if (const char *own = isGguf ? key.gguf : key.huggingFace; own && name == key.name)
      return spelled(prefix + own);
  for (const Field &field : fields)
    if (isGguf && name == field.name)
      return prefix + field.gguf;
  return spelled(std::string(name));
}

Status errorOf(const ModelConfig &config, const std::string &file, std::string_view key, const std::string &what) {
  Status error = errorIn(file, what);
  auto place = config.valueOffsets.find(placeKey(file, key));
  return place == config.valueOffsets.end() ? error : std::move(error).atByte(place->second);
}

Status validateSizes(const ModelConfig &config, const std::string &file) {
  auto check = [&](std::string_view name, int64_t value, int64_t low, int64_t high) -> Status {
    if (value >= low && value <= high)
      return Status();
    std::string key = fieldName(config, name);
    return errorOf(config, file, key,
                   key + " is " + std::to_string(value) + ", expected " + std::to_string(low) + " to " +
                       std::to_string(high));
  };
  for (const Field &field : fields)
    if (field.member)
      HEDDLE_RETURN_IF_ERROR(check(field.name, config.*field.member, field.low, field.high));
  const LatentConfig &latent = config.latent;
  if (latent.enabled)
    for (auto [name, value] : {std::pair<const char *, int64_t>{"kv_lora_rank", latent.kvLoraRank},
                               {"qk_nope_head_dim", latent.qkNopeHeadDim},
                               {"qk_rope_head_dim", latent.qkRopeHeadDim},
                               {"v_head_dim", latent.vHeadDim}})
      HEDDLE_RETURN_IF_ERROR(check(name, value, 1, maxLatentDim));
  const RecurrentConfig &state = config.recurrent;
  if (state.isLinear)
    for (auto [name, value, high] :
         {std::tuple<const char *, int64_t, int64_t>{"linear_num_key_heads", state.numKeyHeads, mostStateHeads},
          {"linear_num_value_heads", state.numValueHeads, mostValueHeads},
          {"linear_key_head_dim", state.keyDim, widestStateHead},
          {"linear_value_head_dim", state.valueDim, widestStateHead}})
      HEDDLE_RETURN_IF_ERROR(check(name, value, 1, high));
  HEDDLE_RETURN_IF_ERROR(check("time_step_rank", state.stepRank, 0, 1 << 16));
  // Of the same limits as the decoder's.
  const EncoderConfig &encoder = config.encoder;
  if (config.family && config.family->isEncoderDecoder)
    for (auto [name, value, high] :
         {std::tuple<const char *, int64_t, int64_t>{"encoder_layers", encoder.numLayers, 4096},
          {"encoder_attention_heads", encoder.numHeads, 1 << 16},
          {"encoder_ffn_dim", encoder.intermediateSize, 1 << 24},
          {"max_source_positions", encoder.contextLength, 1 << 30}})
      HEDDLE_RETURN_IF_ERROR(check(name, value, 1, high));
  HEDDLE_RETURN_IF_ERROR(check("q_lora_rank", latent.qLoraRank, 0, 1 << 16));
  HEDDLE_RETURN_IF_ERROR(check("word_embed_proj_dim", config.embeddingSize, 0, config.hiddenSize));
  HEDDLE_RETURN_IF_ERROR(check("num_local_experts", config.moe.numExperts, 0, maxExperts));
  if (config.moe.numExperts == 0)
    return Status();
  HEDDLE_RETURN_IF_ERROR(check("n_shared_experts", config.moe.sharedIntermediateSize, 0, 1 << 24));
  HEDDLE_RETURN_IF_ERROR(check("moe_latent_size", config.moe.latentSize, 0, 1 << 20));
  return check("moe_intermediate_size", config.moe.intermediateSize, 1, 1 << 24);
}

Status validateGeneration(const ModelConfig &config, const std::string &file) {
  ConfigChecker checker(config, file);
  Status ids = checker.checkIds();
  return ids.isOk() ? checker.checkGeneration() : ids;
}

bool RecurrentConfig::isScaled() const {
  return std::any_of(scales.begin(), scales.end(), [](double scale) { return scale != 1.0; });
}

bool ModelConfig::hasStates() const {
  return std::find(recurrent.layers.begin(), recurrent.layers.end(), true) != recurrent.layers.end();
}

bool ModelConfig::hasAttention() const {
  for (int64_t layer = 0; layer < numHiddenLayers; ++layer)
    if (attends(layer))
      return true;
  return false;
}

bool ModelConfig::hasWindows() const {
  return std::any_of(layerWindow.begin(), layerWindow.end(), [](int64_t window) { return window != 0; });
}

bool ModelConfig::encodes() const {
  return embedsTexts || (family && family->isEncoder);
}

const char *withoutEncoding(const ModelConfig &config) {
  return config.latent.enabled  ? "latent attention"
         : config.streams.count ? "several streams of a token"
         : config.hasStates()   ? "layers that keep a state"
                                : nullptr;
}

double RestoredWeight::relative() const {
  return squares > 0 ? std::sqrt(differences / squares) : 0;
}

Status validate(const Model &model, const std::string &file) {
  for (const ModelConfig *part : model.config.parts())
    HEDDLE_RETURN_IF_ERROR(ConfigChecker(*part, file).check());
  assert(model.config.family && "readers refuse unknown architectures");
  return TensorChecker(model).check();
}

} // namespace heddle
