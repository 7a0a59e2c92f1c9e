// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Status.h"
#include "frontends/License.h"
#include "frontends/gguf/GgufModel.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace heddle {

template <typename T, typename U> T GgufKeys::keep(const Expected<U> &value, T fallback) {
  if (value)
    return static_cast<T>(*value);
  adopt(value.status());
  return fallback;
}

int64_t GgufKeys::integer(const char *key) {
  return keep<int64_t>(file.integer(full(key)), 0);
}

int64_t GgufKeys::integer(const char *key, int64_t fallback) {
  return has(key) ? integer(key) : fallback;
}

double GgufKeys::number(const char *key, double fallback) {
  return has(key) ? keep<double>(file.number(full(key)), fallback) : fallback;
}

bool GgufKeys::boolean(const char *key, bool fallback) {
  return has(key) ? keep<bool>(file.boolean(full(key)), fallback) : fallback;
}

std::string GgufKeys::string(const char *key, const char *fallback) {
  return has(key) ? keep<std::string>(file.string(full(key)), fallback) : fallback;
}

void GgufKeys::fail(const std::string &what) {
  adopt(errorIn(file.path(), what));
}

void GgufKeys::unsupported(const std::string &what) {
  adopt(errorIn(file.path(), what).as(StatusCode::Unsupported));
}

void GgufKeys::adopt(const Status &status) {
  if (error.isOk())
    error = status;
}

namespace {

std::string numberText(double number) {
  char text[32];
  snprintf(text, sizeof text, "%.9g", number);
  return text;
}

class ConfigReader {
public:
  ConfigReader(const GgufFile &file, const Family &family, std::string_view architecture, DecoderUse use)
      : file(file), family(family), use(use), keys(file, std::string(architecture) + ".") {
    config.ggufArchitecture = architecture;
    config.family = &family;
    config.architecture = family.modelType;
    config.source = "gguf";
  }
  Expected<ModelConfig> read();

private:
  // What is the same in every layer: stored as one number, or as an array of equal ones.
  int64_t uniform(const char *key, int64_t fallback);
  std::vector<int64_t> ofLayers(const char *key, int64_t fallback);
  bool isArray(const char *key) const;
  GgufCount layers() const {
    return {config.numHiddenLayers + config.numPredictionLayers, "layers", keys.full("block_count")};
  }
  bool knowsPrediction() const;
  void readPredictionLayers();
  void readShapes();
  std::vector<int64_t> ofSomeLayers(const char *key, int64_t &most);
  void readUniformShapes();
  void readSizes();
  bool hasExpertsOnly() const;
  void readExperts();
  void readWindows();
  void readScales();
  void readUse();
  void checkDense();
  void readBiases();
  void readVocabulary();
  void readSampling();
  std::string valueText(const std::string &key) const;
  void refuseUnread();
  std::optional<int64_t> tokenId(const char *key);

  const GgufFile &file;
  const Family &family;
  DecoderUse use;
  GgufKeys keys;
  ModelConfig config;
};

bool ConfigReader::isArray(const char *key) const {
  auto value = file.metadata().find(keys.full(key));
  return value != file.metadata().end() && value->second.isArray;
}

int64_t ConfigReader::uniform(const char *key, int64_t fallback) {
  if (!isArray(key))
    return fallback ? keys.integer(key, fallback) : keys.integer(key);
  Expected<int64_t> number = file.uniform(keys.full(key), layers());
  keys.adopt(number.status());
  return number ? *number : 0;
}

bool ConfigReader::knowsPrediction() const {
  return std::any_of(family.unread.begin(), family.unread.end(), [](const UnreadTensor &tensor) {
    return std::string_view(tensor.pattern).find('+') != std::string_view::npos;
  });
}

// Layers behind the last that predict one token more are counted among the others.
void ConfigReader::readPredictionLayers() {
  const char *key = "nextn_predict_layers";
  int64_t layers = keys.integer(key, 0);
  if (layers < 0 || layers >= std::max<int64_t>(1, config.numHiddenLayers))
    return keys.fail(keys.full(key) + " is " + std::to_string(layers) + ", expected 0 to less than " +
                     keys.full("block_count") + " (" + std::to_string(config.numHiddenLayers) + ")");
  config.numPredictionLayers = layers;
  config.numHiddenLayers -= layers;
}

// A number of each layer, which the file has once where all are equal.
std::vector<int64_t> ConfigReader::ofLayers(const char *key, int64_t fallback) {
  constexpr int64_t mostLayers = 4096; // which is checked later
  size_t count = static_cast<size_t>(std::clamp<int64_t>(config.numHiddenLayers, 1, mostLayers));
  if (!isArray(key))
    return std::vector<int64_t>(count, fallback ? keys.integer(key, fallback) : keys.integer(key));
  Expected<std::vector<int64_t>> numbers = file.integers(keys.full(key), layers());
  keys.adopt(numbers.status());
  return numbers && numbers->size() == count ? *numbers : std::vector<int64_t>(count, 1);
}

// Heads of keys and widths; the family adds what else differs.
void ConfigReader::readShapes() {
  std::vector<int64_t> kvHeads = ofLayers("attention.head_count_kv", config.numHeads),
                       widths = ofLayers("feed_forward_length", 0), heads = ofLayers("attention.head_count", 0);
  if (family.layersMayNotAttend && std::find(heads.begin(), heads.end(), 0) != heads.end()) {
    size_t first = 0; // whose shape stands for that of layers that have none
    while (first + 1 < heads.size() && heads[first] == 0)
      ++first;
    for (size_t layer = 0; layer < heads.size(); ++layer) {
      config.attending.push_back(heads[layer] != 0);
      if (heads[layer] == 0)
        heads[layer] = heads[first], kvHeads[layer] = kvHeads[first];
    }
  }
  config.numKvHeads = kvHeads.front();
  config.intermediateSize = widths.front();
  config.numHeads = heads.front();
  auto areEqual = [](const std::vector<int64_t> &numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == numbers.front(); });
  };
  bool differ = !areEqual(kvHeads) || !areEqual(widths) || !areEqual(heads);
  auto isCount = [](int64_t number) { return number >= 1 && number <= 1 << 16; };
  for (size_t layer = 0; differ && layer < widths.size(); ++layer) {
    if (!isCount(kvHeads[layer]) || !isCount(heads[layer]) || widths[layer] < 1 || widths[layer] > 1 << 24)
      return keys.fail(keys.full("block_count") + ": layer " + std::to_string(layer) + " has " +
                       std::to_string(heads[layer]) + " heads, " + std::to_string(kvHeads[layer]) +
                       " of keys, and a width of " + std::to_string(widths[layer]) +
                       ", expected 1 to 2^16 and 1 to 2^24");
    // head_dim is known later
    config.layerShapes.push_back({kvHeads[layer], 0, widths[layer], false, heads[layer]});
  }
}

// One number, or for each layer 0 or that one.
std::vector<int64_t> ConfigReader::ofSomeLayers(const char *key, int64_t &most) {
  std::vector<int64_t> numbers = ofLayers(key, 0);
  most = *std::max_element(numbers.begin(), numbers.end());
  for (int64_t number : numbers)
    if (number != 0 && number != most)
      keys.fail(keys.full(key) + " holds " + std::to_string(number) + " and " + std::to_string(most) +
                ", expected one number, and 0 for layers that keep a state");
  return numbers;
}

// Layers that keep a state have no heads of keys, and perhaps no feed-forward block.
void ConfigReader::readUniformShapes() {
  const char *kvHeads = "attention.head_count_kv", *width = "feed_forward_length",
             *ofExperts = "expert_feed_forward_length";
  bool mayLack = family.windows.recurrentType != nullptr;
  if (mayLack && isArray(width))
    ofSomeLayers(width, config.intermediateSize);
  else // where all layers have experts, theirs may be the only one
    config.intermediateSize =
        uniform(family.hasExperts && !keys.has(width) && keys.has(ofExperts) ? ofExperts : width, 0);
  if (mayLack && isArray(kvHeads))
    for (int64_t count : ofSomeLayers(kvHeads, config.numKvHeads))
      config.recurrent.layers.push_back(count == 0);
  else
    config.numKvHeads = keys.has(kvHeads) ? uniform(kvHeads, 0) : config.numHeads;
}

void ConfigReader::readSizes() {
  config.contextLength = keys.integer("context_length");
  config.hiddenSize = keys.integer("embedding_length");
  config.numHiddenLayers = keys.integer("block_count");
  if (knowsPrediction())
    readPredictionLayers();
  if (family.layersDiffer) {
    readShapes();
  } else {
    config.numHeads = uniform("attention.head_count", 0);
    readUniformShapes();
  }
  // `keys` adds the prefix again.
  std::string eps = fieldName(config, "rms_norm_eps").substr(keys.full("").size());
  config.normEps = keys.number(eps.c_str(), family.defaults.normEps);
  config.activation = family.defaults.activation;
  config.parallelResidual = family.parallelResidual;
  if (family.readers.ggufSizes)
    return family.readers.ggufSizes(keys, config);
  int64_t evenHead = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  config.headDim = keys.integer("attention.key_length", evenHead);
  for (LayerShape &shape : config.layerShapes)
    shape.headDim = config.headDim;
  if (int64_t valueDim = keys.integer("attention.value_length", config.headDim); valueDim != config.headDim)
    keys.fail(keys.full("attention.value_length") + " is " + std::to_string(valueDim) + ", expected that of keys, " +
              std::to_string(config.headDim));
  if (!keys.has("attention.key_length") && config.numHeads > 0 && config.hiddenSize % config.numHeads != 0)
    keys.fail(keys.full("embedding_length") + " (" + std::to_string(config.hiddenSize) + ") must be a multiple of " +
              keys.full("attention.head_count") + " (" + std::to_string(config.numHeads) + ")");
}

// Every layer of the family has experts: nothing else stands in their place.
bool ConfigReader::hasExpertsOnly() const {
  bool hasExperts = false;
  for (const TensorRules &rules : family.rules)
    for (const TensorRule &rule : rules) {
      if (rule.when == When::Dense || rule.rows == ConfigDim::Intermediate)
        return false;
      hasExperts |= rule.rows == ConfigDim::Experts;
    }
  return hasExperts;
}

void ConfigReader::readExperts() {
  MoeConfig &moe = config.moe;
  moe.layerIsMoe.assign(static_cast<size_t>(config.numHiddenLayers), moe.numExperts > 0);
  bool expertsOnly = hasExpertsOnly();
  if (expertsOnly && moe.numExperts == 0)
    keys.fail(keys.full("expert_count") + " is 0, expected at least 1");
  if (moe.numExperts == 0)
    return;
  moe.expertsPerToken = keys.integer("expert_used_count");
  for (int64_t layer = 0; layer < config.numHiddenLayers && !expertsOnly; ++layer)
    moe.layerIsMoe[layer] = file.tensors().find("blk." + std::to_string(layer) + ".ffn_gate_inp.weight") != nullptr;
}

void ConfigReader::readWindows() {
  const WindowRules &rules = family.windows;
  int64_t window = keys.integer("attention.sliding_window", rules.slidesAlways ? family.defaults.slidingWindow : 0);
  if (!rules.inGguf)
    window = 0;
  config.layerWindow.assign(static_cast<size_t>(config.numHiddenLayers), window);
  // How many layers one that sees all tokens is the last of, or which layers see a window.
  const char *pattern = "attention.sliding_window_pattern";
  if ((rules.statesFullEvery || rules.readsLayerTypes || rules.ggufFullEvery) && isArray(pattern)) {
    GgufCount each = layers(); // with those that predict, or without them
    if (file.metadata().find(keys.full(pattern))->second.count == static_cast<uint64_t>(config.numHiddenLayers))
      each.number = config.numHiddenLayers;
    Expected<std::vector<bool>> slides = file.booleans(keys.full(pattern), each);
    keys.adopt(slides.status());
    for (size_t layer = 0; slides && layer < config.layerWindow.size(); ++layer)
      config.layerWindow[layer] = (*slides)[layer] ? window : 0;
    return;
  }
  int64_t period = rules.ggufFullEvery     ? keys.integer(pattern, rules.ggufFullEvery)
                   : rules.statesFullEvery ? keys.integer(pattern, rules.fullEvery)
                                           : rules.fullEvery;
  if (period < 0)
    keys.fail(keys.full(pattern) + " is " + std::to_string(period) + ", expected a positive number");
  for (int64_t layer = 0; period > 0 && layer < config.numHiddenLayers; ++layer)
    if ((layer + (rules.ggufFullFirst ? 0 : 1)) % period == 0)
      config.layerWindow[layer] = 0;
}

// What llama.cpp makes of a text's tokens, by its number for that; it then divides by the length, as here.
static std::optional<PoolingConfig::Mode> poolingMode(int64_t type) {
  constexpr PoolingConfig::Mode modes[] = {PoolingConfig::Mode::Mean, PoolingConfig::Mode::Cls,
                                           PoolingConfig::Mode::LastToken};
  return type >= 1 && type <= int64_t(std::size(modes)) ? std::optional(modes[type - 1]) : std::nullopt;
}

// A decoder whose file says how tokens are pooled embeds texts, as does one whose tokens attend to all of their text.
void ConfigReader::readUse() {
  if (family.isGraph || family.isEncoderDecoder)
    return;
  int64_t type = keys.integer("pooling_type", 0); // 0: none is stated
  std::optional<PoolingConfig::Mode> mode = poolingMode(type);
  if (type && !mode)
    keys.unsupported(keys.full("pooling_type") + " is " + std::to_string(type) +
                     (type == 4 ? ", rank, which is not supported" : ", which is not supported") +
                     "; expected 1 to 3: mean, cls, last");
  bool isAhead = family.isEncoder || (family.ggufAhead && config.ggufArchitecture == family.ggufAhead);
  if (isAhead || (family.rope.hasRope && !config.hasWindows()) || family.mayAttendAhead)
    config.attendsAhead = !keys.boolean("attention.causal", !isAhead);
  config.embedsTexts = !family.isEncoder && (config.attendsAhead || use == DecoderUse::Encode ||
                                             (use == DecoderUse::Stated && mode.has_value()));
  if (isAhead && !config.attendsAhead)
    keys.unsupported(keys.full("attention.causal") + " is true, which is not supported for " + config.architecture +
                     "; expected false");
  if (!config.encodes())
    return;
  PoolingConfig pooling;
  pooling.modes = {mode.value_or(PoolingConfig::Mode::Mean)};
  pooling.normalizes = true;
  pooling.maxTokens = config.contextLength;
  config.pooling = pooling;
}

// The widths of layers behind pooling, which the shapes of their tensors say as well.
void ConfigReader::checkDense() {
  for (std::string name : {"dense_2", "dense_3"})
    for (auto [end, axis, what] : {std::tuple("_feat_out", 0, " rows"), {"_feat_in", 1, " columns"}}) {
      std::string key = name + end;
      if (!keys.has(key.c_str()))
        continue;
      std::string stated = keys.full(key.c_str()) + " is " + std::to_string(keys.integer(key.c_str())) + ", but ";
      std::string weight = name + ".weight";
      const TensorInfo *tensor = file.tensors().find(weight);
      if (!tensor)
        keys.fail(stated.append("there is no tensor ").append(weight));
      else if (tensor->shape.size() == 2 && tensor->shape[axis] != keys.integer(key.c_str()))
        keys.fail(stated.append("tensor ").append(weight).append(" has ") + std::to_string(tensor->shape[axis]) + what);
    }
}

void ConfigReader::readScales() {
  config.attentionScale = keys.number("attention.scale", 0.0);
  config.attentionSoftcap = keys.number("attn_logit_softcapping", family.defaults.attentionSoftcap);
  config.finalSoftcap = keys.number("final_logit_softcapping", family.defaults.finalSoftcap);
}

// The format has no keys for biases: the first tensor of each kind that the family's rules know tells, in the first layer that attends.
void ConfigReader::readBiases() {
  int64_t layer = 0;
  while (layer + 1 < config.numHiddenLayers && !config.attends(layer))
    ++layer;
  auto holds = [&](When when) {
    for (const TensorRules &rules : family.rules)
      for (const TensorRule &rule : rules)
        if (rule.when == when)
          return file.tensors().find(tensorName(rule.gguf, layer, 0)) ||
                 file.tensors().find(wholeName(tensorName(rule.gguf, layer, 0)));
    return false;
  };
  config.attentionBias = holds(When::AttentionBias);
  config.attentionOutputBias = holds(When::OutputBias);
  config.mlpBias = family.biases.mlpInGguf && holds(When::MlpBias);
}

std::optional<int64_t> ConfigReader::tokenId(const char *key) {
  if (!file.contains(key))
    return std::nullopt;
  Expected<int64_t> id = file.integer(key);
  if (id)
    return *id;
  keys.adopt(id.status());
  return std::nullopt;
}

// The vocabulary is the embedding's rows; what the metadata says must agree.
void ConfigReader::readVocabulary() {
  const TensorInfo *embedding = file.tensors().find("token_embd.weight");
  int64_t rows = embedding && embedding->shape.size() == 2 ? embedding->shape[0] : 0;
  config.vocabSize = keys.integer("vocab_size", rows);
  auto tokens = file.metadata().find("tokenizer.ggml.tokens");
  if (tokens != file.metadata().end() && tokens->second.isArray) {
    int64_t count = static_cast<int64_t>(tokens->second.count);
    if (!embedding)
      config.vocabSize = count;
    else if (count != rows)
      keys.fail("tokenizer.ggml.tokens has " + std::to_string(count) + " tokens, but token_embd.weight has " +
                std::to_string(rows) + " rows (vocab_size)");
  }
  config.bosId = tokenId("tokenizer.ggml.bos_token_id");
  config.padId = tokenId("tokenizer.ggml.padding_token_id");
  for (const char *key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"})
    if (std::optional<int64_t> id = tokenId(key); id && (config.eosIds.empty() || config.eosIds.front() != *id))
      config.eosIds.push_back(*id);
}

// The keys are a generation_config.json's, copied without its do_sample: one that narrows the choice asks for samples.
void ConfigReader::readSampling() {
  auto number = [&](const char *key, double &value) {
    if (!file.contains(key))
      return false;
    Expected<double> stored = file.number(key);
    if (stored)
      value = *stored;
    else
      keys.adopt(stored.status());
    return true;
  };
  double topK = defaultTopK, other;
  bool narrows = number("general.sampling.temp", config.temperature);
  narrows |= number("general.sampling.top_k", topK);
  narrows |= number("general.sampling.top_p", config.topP);
  narrows |= number("general.sampling.min_p", config.minP);
  if (number("general.sampling.penalty_repeat", config.repetitionPenalty) || narrows)
    config.samplingSource = "GGUF keys general.sampling";
  config.doSample = narrows && !(config.temperature <= 0.0); // greedy from 0 down, as in llama.cpp
  if (!config.doSample)
    config.temperature = 1.0;
  config.topK = narrows && topK > 0.0 ? static_cast<int64_t>(std::min(topK, 2147483647.0)) : 0;
  for (const char *key : {"mirostat", "xtc_probability", "penalty_last_n"})
    if (other = 0.0; number((std::string("general.sampling.") + key).c_str(), other) && other != 0.0)
      config.notApplied.push_back(key + (" " + numberText(other)));
  if (file.contains("general.sampling.sequence"))
    config.notApplied.push_back("sequence");
  config.samplingFile = file.path();
}

// Keys under the architecture's name that a family need not ask for, and the number with which they change nothing (false: 0). One without a
// number changes nothing here whatever it holds: what it says is read from tensors, or belongs to what is switched off. Any other key that
// no rule reads is refused, for what it would change is not known. docs/gguf.md of ggml describes most.
struct UnreadKey {
  const char *key;
  std::optional<double> inert;
};
const UnreadKey unreadKeys[] = {
    {"attention.causal", 1},
    {"attention.clamp_kqv", 0},
    {"attention.key_length", {}}, // beside that of latents
    {"attention.layer_norm_epsilon", {}},
    {"attention.layer_norm_rms_epsilon", {}},
    {"attention.max_alibi_bias", 0},
    {"attention.shared_kv_layers", 0},
    {"attention.temperature_scale", 0},
    {"attention.value_length", {}},
    {"embedding_scale", 1},
    {"expert_feed_forward_length", {}}, // without experts
    {"expert_gating_func", 1},
    {"expert_group_count", 1},
    {"expert_group_used_count", 1},
    {"expert_shared_count", 0},
    {"expert_shared_feed_forward_length", {}},
    {"expert_used_count", {}}, // without experts
    {"expert_weights_norm", 1},
    {"expert_weights_scale", 1},
    {"leading_dense_block_count", {}},
    {"logit_scale", 1},
    {"mm.tokens_per_image", {}},
    {"n_deepstack_layers", 0},
    {"nextn_predict_layers", 0},
    {"rescale_every_n_layers", 0},
    {"residual_scale", 1},
    {"rope.dimension_count", {}}, // without a rotation
    {"rope.freq_base", {}},
    {"rope.scale_linear", {}}, // beside rope.scaling, or where that is none
    {"rope.scaling.attn_factor", 1},
    {"rope.scaling.factor", {}},
    {"rope.scaling.finetuned", {}},
    {"rope.scaling.original_context_length", {}},
    {"rope.scaling.yarn_attn_factor", 1},
    {"rope.scaling.yarn_beta_fast", {}},
    {"rope.scaling.yarn_beta_slow", {}},
    {"rope.scaling.yarn_ext_factor", 1},
    {"rope.scaling.yarn_log_multiplier", {}},
    {"router_logit_softcapping", 0},
    {"tensor_data_layout", {}},
    {"use_parallel_residual", 0},
};

// As the file has it: true, 8, 'name', an array of u32.
std::string ConfigReader::valueText(const std::string &key) const {
  if (Expected<bool> flag = file.boolean(key))
    return *flag ? "true" : "false";
  if (Expected<double> number = file.number(key))
    return numberText(*number);
  if (Expected<std::string_view> text = file.string(key))
    return "'" + printable(*text, 64) + "'";
  return "an " + ggufTypeName(file.metadata().find(key)->second);
}

// After everything is read.
void ConfigReader::refuseUnread() {
  std::string prefix = config.ggufArchitecture + ".";
  for (auto entry = file.metadata().lower_bound(prefix); entry != file.metadata().end(); ++entry) {
    std::string key(entry->first);
    if (key.compare(0, prefix.size(), prefix) != 0)
      break;
    std::string name = key.substr(prefix.size());
    if (keys.wasAsked(name.c_str()))
      continue;
    auto known = std::find_if(std::begin(unreadKeys), std::end(unreadKeys),
                              [&](const UnreadKey &unread) { return name == unread.key; });
    if (known == std::end(unreadKeys)) {
      keys.unsupported(printable(key, 128) + " is " + valueText(key) + ", a key that is not known for " +
                       config.architecture + "; expected a file without it");
      continue;
    }
    Expected<bool> flag = file.boolean(key);
    Expected<double> number = flag ? Expected<double>(*flag) : file.number(key);
    if (known->inert && !(number && *number == *known->inert))
      keys.unsupported(key + " is " + valueText(key) + ", which is not supported for " + config.architecture +
                       "; expected " + (flag ? *known->inert ? "true" : "false" : numberText(*known->inert)));
  }
}

Expected<ModelConfig> ConfigReader::read() {
  readSizes();
  readVocabulary();
  config.moe.numExperts = keys.integer("expert_count", 0);
  if (config.moe.numExperts > 0)
    config.moe.intermediateSize = keys.integer("expert_feed_forward_length", config.intermediateSize);
  HEDDLE_RETURN_IF_ERROR(keys.status());
  const uint8_t *begin = file.tensors().files.front()->data();
  for (const auto &[key, value] : file.metadata())
    config.valueOffsets[placeKey(file.path(), key)] = static_cast<uint64_t>(value.data - begin);
  HEDDLE_RETURN_IF_ERROR(validateSizes(config, file.path()));
  readExperts();
  readWindows();
  readScales();
  readUse();
  checkDense();
  readGgufRopes(keys, config);
  if (family.readers.ggufRest)
    family.readers.ggufRest(keys, config);
  if (const char *what = withoutEncoding(config); what && config.embedsTexts)
    keys.unsupported(std::string("the model embeds texts, which is not supported of ") + what +
                     ": expected --task=generate");
  readSampling();
  config.tieWordEmbeddings = !file.tensors().find("output.weight");
  readBiases();
  refuseUnread();
  HEDDLE_RETURN_IF_ERROR(keys.status());
  if (file.contains("general.name"))
    if (Expected<std::string_view> name = file.string("general.name"))
      config.name = std::string(*name);
  if (file.contains("general.license"))
    if (Expected<std::string_view> license = file.string("general.license"))
      config.license = licenseName(*license);
  return config;
}

} // namespace

Expected<ModelConfig> readGgufConfig(const GgufFile &file, const FamilyList &families, DecoderUse use) {
  Expected<std::string_view> name = file.string("general.architecture");
  if (!name)
    return name.status();
  if (*name == clipArchitecture)
    return errorIn(file.path(),
                   "holds what sees images, or hears, for another model (general.architecture 'clip'): give "
                   "that model's GGUF file, and this one as --mmproj");
  GgufKeys keys(file, std::string(*name) + ".");
  bool hasExperts = keys.integer("expert_count", 0) > 0;
  const Family *family = findGgufFamily(families, *name, hasExperts, file.tensors());
  if (!family)
    return errorIn(file.path(), "architecture '" + printable(*name, 64) +
                                    "' (general.architecture) is not supported; known " +
                                    "architectures: " + knownGgufFamilies(families))
        .as(StatusCode::Unsupported);
  HEDDLE_RETURN_IF_ERROR(keys.status());
  return ConfigReader(file, *family, *name, use).read();
}

} // namespace heddle
