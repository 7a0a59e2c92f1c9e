// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Status.h"
#include "frontends/gguf/GgufModel.h"

#include <cmath>

namespace heddle {

template <typename T, typename U> T GgufKeys::keep(const Expected<U> &value, T fallback) {
  if (value)
    return static_cast<T>(*value);
  if (error.isOk())
    error = value.status();
  return fallback;
}

int64_t GgufKeys::integer(const char *key) {
  return keep<int64_t>(file.integer(prefix + key), 0);
}

int64_t GgufKeys::integer(const char *key, int64_t fallback) {
  return has(key) ? integer(key) : fallback;
}

double GgufKeys::number(const char *key, double fallback) {
  return has(key) ? keep<double>(file.number(prefix + key), fallback) : fallback;
}

bool GgufKeys::boolean(const char *key, bool fallback) {
  return has(key) ? keep<bool>(file.boolean(prefix + key), fallback) : fallback;
}

std::string GgufKeys::string(const char *key, const char *fallback) {
  return has(key) ? keep<std::string>(file.string(prefix + key), fallback) : fallback;
}

void GgufKeys::fail(const std::string &what) {
  if (error.isOk())
    error = errorIn(file.path(), what);
}

namespace {

class ConfigReader {
public:
  ConfigReader(const GgufFile &file, const Architecture &architecture)
      : file(file), architecture(architecture), keys(file, std::string(architecture.gguf) + ".") {
    config.architecture = architecture.name;
    config.source = "gguf";
  }
  Expected<ModelConfig> read();

private:
  bool is(std::string_view name) const { return config.architecture == name; }
  // The same number of heads in every layer: stored as one number, or as an array of equal ones.
  int64_t heads(const char *key, int64_t fallback);
  void readSizes();
  void readExperts();
  void readWindows();
  void readScales();
  void readVocabulary();
  std::optional<int64_t> tokenId(const char *key);

  const GgufFile &file;
  const Architecture &architecture;
  GgufKeys keys;
  ModelConfig config;
};

int64_t ConfigReader::heads(const char *key, int64_t fallback) {
  auto value = file.metadata().find(keys.full(key));
  if (value == file.metadata().end() || !value->second.isArray)
    return fallback ? keys.integer(key, fallback) : keys.integer(key);
  Expected<std::vector<int64_t>> counts = file.integers(keys.full(key));
  if (!counts || counts->empty()) {
    keys.fail(counts ? keys.full(key) + " is empty" : counts.message());
    return 0;
  }
  for (int64_t count : *counts)
    if (count != counts->front())
      keys.fail(keys.full(key) + " differs between layers (" + std::to_string(counts->front()) + ", " +
                std::to_string(count) + "), which is not supported");
  return counts->front();
}

void ConfigReader::readSizes() {
  config.contextLength = keys.integer("context_length");
  config.hiddenSize = keys.integer("embedding_length");
  config.numHiddenLayers = keys.integer("block_count");
  config.numHeads = heads("attention.head_count", 0);
  config.numKvHeads = heads("attention.head_count_kv", config.numHeads);
  config.intermediateSize = heads("feed_forward_length", 0);
  const char *eps = is("gpt2") ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
  config.normEps = keys.number(eps, architecture.defaults.normEps);
  config.activation = architecture.defaults.activation;
  if (architecture.isLatent)
    return readGgufLatentSizes(keys, file, config);
  int64_t evenHead = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  config.headDim = keys.integer("attention.key_length", evenHead);
  if (int64_t valueDim = keys.integer("attention.value_length", config.headDim); valueDim != config.headDim)
    keys.fail(keys.full("attention.value_length") + " is " + std::to_string(valueDim) + ", expected that of keys, " +
              std::to_string(config.headDim));
  if (!keys.has("attention.key_length") && config.numHeads > 0 && config.hiddenSize % config.numHeads != 0)
    keys.fail(keys.full("embedding_length") + " (" + std::to_string(config.hiddenSize) + ") must be a multiple of " +
              keys.full("attention.head_count") + " (" + std::to_string(config.numHeads) + ")");
}

void ConfigReader::readExperts() {
  MoeConfig &moe = config.moe;
  moe.layerIsMoe.assign(static_cast<size_t>(config.numHiddenLayers), moe.numExperts > 0);
  if (moe.numExperts == 0)
    return;
  moe.expertsPerToken = keys.integer("expert_used_count");
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer)
    moe.layerIsMoe[layer] = file.tensors().find("blk." + std::to_string(layer) + ".ffn_gate_inp.weight") != nullptr;
  if (architecture.isLatent)
    readGgufDeepSeekExperts(keys, file, config);
}

void ConfigReader::readWindows() {
  int64_t window =
      keys.integer("attention.sliding_window", architecture.offsetNorm ? architecture.defaults.slidingWindow : 0);
  if (is("gpt2") || architecture.gguf[0] == 'q')
    window = 0;
  // gemma2: every second layer is full; gemma3: every sixth, unless the file says otherwise.
  int64_t period = is("gemma2") ? 2 : is("gemma3_text") ? 6 : 0;
  if (is("gemma3_text"))
    if (auto value = file.metadata().find(keys.full("attention.sliding_window_pattern"));
        value != file.metadata().end() && !value->second.isArray)
      period = keys.integer("attention.sliding_window_pattern");
  if (period < 0)
    keys.fail(keys.full("attention.sliding_window_pattern") + " is " + std::to_string(period) +
              ", expected a positive number");
  config.layerWindow.assign(static_cast<size_t>(config.numHiddenLayers), window);
  for (int64_t layer = 0; period > 0 && layer < config.numHiddenLayers; ++layer)
    if ((layer + 1) % period == 0)
      config.layerWindow[layer] = 0;
}

void ConfigReader::readScales() {
  config.attentionScale = keys.number("attention.scale", 0.0);
  if (architecture.offsetNorm)
    config.embeddingScale = std::sqrt(static_cast<double>(config.hiddenSize));
  config.attentionSoftcap = keys.number("attn_logit_softcapping", is("gemma2") ? 50.0 : 0.0);
  config.finalSoftcap = keys.number("final_logit_softcapping", is("gemma2") ? 30.0 : 0.0);
  // The 27B models scale by hidden_size / num_heads instead of head_dim, and the format has no key for it: told by
  // their depth.
  bool isLarge = (is("gemma2") && config.numHiddenLayers == 46) || (is("gemma3_text") && config.numHiddenLayers == 62);
  if (isLarge && !keys.has("attention.scale"))
    config.attentionScale =
        1.0 / std::sqrt(static_cast<double>(config.hiddenSize) / static_cast<double>(config.numHeads));
}

std::optional<int64_t> ConfigReader::tokenId(const char *key) {
  if (!file.contains(key))
    return std::nullopt;
  Expected<int64_t> id = file.integer(key);
  if (id)
    return *id;
  keys.fail(id.message());
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

Expected<ModelConfig> ConfigReader::read() {
  readSizes();
  readVocabulary();
  config.moe.numExperts = keys.integer("expert_count", 0);
  if (config.moe.numExperts > 0)
    config.moe.intermediateSize = keys.integer("expert_feed_forward_length", config.intermediateSize);
  HEDDLE_RETURN_IF_ERROR(keys.status());
  HEDDLE_RETURN_IF_ERROR(validateSizes(config, file.path()));
  readExperts();
  readWindows();
  readScales();
  readGgufRopes(keys, file, config);
  if (architecture.isLatent && !config.ropes.empty())
    setGgufLatentScale(config);
  config.tieWordEmbeddings = !file.tensors().find("output.weight");
  const char *bias = architecture.isLatent ? "blk.0.attn_kv_a_mqa.bias" : "blk.0.attn_q.bias";
  config.attentionBias = !is("gpt2") && file.tensors().find(bias);
  config.attentionOutputBias = !is("gpt2") && file.tensors().find("blk.0.attn_output.bias");
  config.mlpBias = is("llama") && file.tensors().find("blk.0.ffn_gate.bias");
  HEDDLE_RETURN_IF_ERROR(keys.status());
  if (file.contains("general.name"))
    if (Expected<std::string_view> name = file.string("general.name"))
      config.name = std::string(*name);
  return config;
}

} // namespace

Expected<ModelConfig> readGgufConfig(const GgufFile &file) {
  Expected<std::string_view> name = file.string("general.architecture");
  if (!name)
    return name.status();
  GgufKeys keys(file, std::string(*name) + ".");
  bool hasExperts = keys.integer("expert_count", 0) > 0;
  const Architecture *architecture = findGgufArchitecture(*name, hasExperts);
  if (!architecture)
    return errorIn(file.path(), "architecture '" + printable(*name, 64) +
                                    "' (general.architecture) is not supported; known " +
                                    "architectures: " + knownArchitectures(true));
  HEDDLE_RETURN_IF_ERROR(keys.status());
  return ConfigReader(file, *architecture).read();
}

} // namespace heddle
