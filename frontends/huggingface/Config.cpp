// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/huggingface/Config.h"
#include "bytes/Status.h"
#include "frontends/Json.h"

#include <algorithm>
#include <cmath>
#include <sys/stat.h>

namespace heddle {

namespace {

struct ActivationName {
  const char *name;
  Activation activation;
};
constexpr ActivationName activationNames[] = {
    {"silu", Activation::Silu},
    {"swish", Activation::Silu},
    {"gelu", Activation::Gelu},
    {"gelu_python", Activation::Gelu},
    {"gelu_new", Activation::GeluTanh},
    {"gelu_fast", Activation::GeluTanh},
    {"gelu_pytorch_tanh", Activation::GeluTanh},
    {"gelu_python_tanh", Activation::GeluTanh},
    {"gelu_accurate", Activation::GeluTanh},
    {"relu", Activation::Relu},
    {"quick_gelu", Activation::QuickGelu},
    {"tanh", Activation::Tanh},
};

void readIds(JsonObject &object, ModelConfig &config) {
  config.bosId = object.integer("bos_token_id");
  config.eosIds = object.integers("eos_token_id");
  config.padId = object.integer("pad_token_id");
  if (config.padId == -1) // published llama checkpoints say "none" this way
    config.padId.reset();
}

// Reads one config object, the model's own or the text part of a multimodal one.
class ConfigReader {
public:
  ConfigReader(JsonObject &object, const Architecture &architecture) : object(object), architecture(architecture) {
    config.architecture = architecture.name;
    config.source = "huggingface";
  }
  Expected<ModelConfig> read();

private:
  // The value under the name that this architecture uses for `key`, else `fallback`; 0 stands for no fallback.
  int64_t size(const char *key, int64_t fallback = 0);
  bool is(std::string_view name) const { return config.architecture == name; }
  bool isAny(std::initializer_list<std::string_view> names) const {
    return std::find(names.begin(), names.end(), config.architecture) != names.end();
  }
  void readSizes();
  void readFlags();
  void readActivation();
  void readWindows();
  std::vector<std::string> defaultLayerTypes(int64_t window);
  void readExperts();
  void readScales();
  void refuseUnsupported();

  JsonObject &object;
  const Architecture &architecture;
  ModelConfig config;
};

int64_t ConfigReader::size(const char *key, int64_t fallback) {
  std::string name = fieldName(config, key);
  std::optional<int64_t> value = object.integer(name.c_str());
  if (!value && !fallback)
    object.fail(name.c_str(), "is missing");
  return value.value_or(fallback);
}

void ConfigReader::readSizes() {
  const ConfigDefaults &defaults = architecture.defaults;
  config.vocabSize = size("vocab_size", defaults.vocabSize);
  config.hiddenSize = size("hidden_size");
  config.numHiddenLayers = size("num_hidden_layers");
  config.numHeads = size("num_attention_heads", defaults.numHeads);
  config.contextLength = size("max_position_embeddings", defaults.context);
  int64_t evenHead = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  if (is("gpt2")) {
    config.numKvHeads = config.numHeads;
    config.headDim = evenHead;
    config.intermediateSize =
        object.integer("n_inner").value_or(config.hiddenSize <= 1 << 20 ? 4 * config.hiddenSize : 0);
    config.normEps = object.number("layer_norm_epsilon").value_or(defaults.normEps);
  } else {
    config.intermediateSize = size("intermediate_size");
    config.normEps = object.number("rms_norm_eps").value_or(defaults.normEps);
    if (architecture.isLatent)
      return readDeepSeekSizes(object, config);
    int64_t kvHeads =
        defaults.numKvHeads && !object.isNull("num_key_value_heads") ? defaults.numKvHeads : config.numHeads;
    config.numKvHeads = object.integer("num_key_value_heads").value_or(kvHeads);
    bool hasHeadDim = object.has("head_dim");
    config.headDim = object.integer("head_dim").value_or(defaults.headDim ? defaults.headDim : evenHead);
    if (hasHeadDim || defaults.headDim)
      return;
  }
  if (config.numHeads > 0 && config.hiddenSize % config.numHeads != 0)
    object.fail(fieldName(config, "hidden_size") + " (" + std::to_string(config.hiddenSize) +
                ") must be a multiple of " + fieldName(config, "num_attention_heads") + " (" +
                std::to_string(config.numHeads) + ")");
}

void ConfigReader::readFlags() {
  config.tieWordEmbeddings = object.boolean("tie_word_embeddings").value_or(architecture.defaults.tied);
  // The reference's other families carry the keys unread.
  bool bias =
      !isAny({"gpt2", "mistral", "mixtral", "phi3", "qwen2"}) && object.boolean("attention_bias").value_or(false);
  config.attentionBias = is("qwen2") || bias;
  config.attentionOutputBias = bias;
  config.mlpBias = isAny({"deepseek_v2", "llama"}) && object.boolean("mlp_bias").value_or(false);
  config.normWeightOffset = architecture.offsetNorm ? 1.0 : 0.0;
  config.name = object.string("_name_or_path").value_or("");
}

void ConfigReader::readActivation() {
  config.activation = architecture.defaults.activation;
  const char *key = is("gpt2") ? "activation_function" : architecture.offsetNorm ? "hidden_activation" : "hidden_act";
  std::optional<std::string> name = object.string(key);
  if (!name)
    return;
  std::string known;
  for (const ActivationName &entry : activationNames) {
    known += std::string(known.empty() ? "" : ", ") + entry.name;
    if (*name == entry.name) {
      config.activation = entry.activation;
      return;
    }
  }
  object.fail(key, "is '" + printable(*name, 64) + "', an unknown activation; known: " + known);
}

std::vector<std::string> ConfigReader::defaultLayerTypes(int64_t window) {
  bool slides = window > 0 || architecture.offsetNorm; // gemma's layers do whatever the window
  std::vector<std::string> types(static_cast<size_t>(config.numHiddenLayers),
                                 slides ? "sliding_attention" : "full_attention");
  int64_t period = 0; // every period-th layer is full; 0: none
  if (is("gemma2"))
    period = 2;
  if (is("gemma3_text"))
    period = object.integer("sliding_window_pattern").value_or(object.integer("_sliding_window_pattern").value_or(6));
  if (period < 0 || (is("gemma3_text") && period == 0))
    object.fail("sliding_window_pattern", "is " + std::to_string(period) + ", expected a positive number");
  for (int64_t layer = 0; period > 0 && layer < config.numHiddenLayers; ++layer)
    if ((layer + 1) % period == 0)
      types[layer] = "full_attention";
  if (is("qwen2") || is("qwen3"))
    for (int64_t layer = 0; layer < std::min(config.numHiddenLayers, object.integer("max_window_layers").value_or(28));
         ++layer)
      types[layer] = "full_attention";
  return types;
}

// Which layers see the last `sliding_window` tokens only.
void ConfigReader::readWindows() {
  bool isQwen = is("qwen2") || is("qwen3") || is("qwen3_moe");
  bool usesWindow = isQwen ? object.boolean("use_sliding_window").value_or(false)
                           : !isAny({"gpt2", "llama"}) && !architecture.isLatent;
  int64_t window = 0; // none
  if (usesWindow && !object.isNull("sliding_window"))
    window = object.integer("sliding_window").value_or(architecture.defaults.slidingWindow);
  if (window < 0)
    object.fail("sliding_window", "is negative (" + std::to_string(window) + ")");
  else if (window == 0 && usesWindow && object.has("sliding_window"))
    object.fail("sliding_window", "is 0, expected at least 1, or null for none");
  bool typed = isAny({"gemma2", "gemma3_text", "qwen2", "qwen3"}); // the other architectures do not look at layer_types
  std::vector<std::string> types =
      typed && object.has("layer_types") ? object.strings("layer_types") : defaultLayerTypes(window);
  if (types.size() != static_cast<size_t>(config.numHiddenLayers))
    object.fail("layer_types", "has " + std::to_string(types.size()) + " entries, expected num_hidden_layers (" +
                                   std::to_string(config.numHiddenLayers) + ")");
  config.layerWindow.assign(static_cast<size_t>(config.numHiddenLayers), 0);
  for (size_t layer = 0; layer < std::min(types.size(), config.layerWindow.size()); ++layer) {
    if (types[layer] != "full_attention" && types[layer] != "sliding_attention")
      object.fail("layer_types",
                  "holds '" + printable(types[layer], 64) + "', expected full_attention or sliding_attention");
    else if (types[layer] == "sliding_attention" && window == 0)
      object.fail("layer_types",
                  "holds sliding_attention, but " +
                      std::string(isQwen && !usesWindow ? "use_sliding_window is false" : "sliding_window is null"));
    else
      config.layerWindow[layer] = types[layer] == "sliding_attention" ? window : 0;
  }
}

void ConfigReader::readExperts() {
  config.moe.layerIsMoe.assign(static_cast<size_t>(config.numHiddenLayers), false);
  if (architecture.isLatent)
    return readDeepSeekExperts(object, config);
  if (!is("mixtral") && !is("qwen3_moe"))
    return;
  MoeConfig &moe = config.moe;
  const char *count = object.has("num_experts") ? "num_experts" : "num_local_experts";
  moe.numExperts = object.integer(count).value_or(is("mixtral") ? 8 : 128);
  moe.expertsPerToken = object.integer("num_experts_per_tok").value_or(is("mixtral") ? 2 : 8);
  moe.intermediateSize =
      is("mixtral") ? config.intermediateSize : object.integer("moe_intermediate_size").value_or(768);
  moe.normTopkProb = is("mixtral") || object.boolean("norm_topk_prob").value_or(false);
  if (moe.numExperts < 1)
    object.fail(count, "is " + std::to_string(moe.numExperts) + ", expected at least 1");
  int64_t step = is("mixtral") ? 1 : object.integer("decoder_sparse_step").value_or(1);
  if (step < 1)
    object.fail("decoder_sparse_step", "is " + std::to_string(step) + ", expected at least 1");
  for (int64_t layer = 0; step > 0 && layer < config.numHiddenLayers; ++layer)
    moe.layerIsMoe[layer] = (layer + 1) % step == 0;
  if (!is("qwen3_moe"))
    return;
  for (int64_t layer : object.integers("mlp_only_layers")) {
    if (layer < 0 || layer >= config.numHiddenLayers)
      return object.fail("mlp_only_layers",
                         "holds " + std::to_string(layer) + ", expected layers below num_hidden_layers");
    moe.layerIsMoe[layer] = false;
  }
}

void ConfigReader::readScales() {
  if (is("gpt2")) {
    config.attentionScale = object.boolean("scale_attn_weights").value_or(true) ? 0.0 : 1.0;
    config.scaleByLayer = object.boolean("scale_attn_by_inverse_layer_idx").value_or(false);
  }
  if (!architecture.offsetNorm)
    return;
  config.embeddingScale = std::sqrt(static_cast<double>(config.hiddenSize));
  double scalar = object.number("query_pre_attn_scalar").value_or(256.0);
  if (!(scalar > 0.0) || !std::isfinite(scalar))
    object.fail("query_pre_attn_scalar", "is " + std::to_string(scalar) + ", expected a positive number");
  else
    config.attentionScale = 1.0 / std::sqrt(scalar);
  // Absent means the class default, null means none.
  auto softcap = [&](const char *key, double fallback) {
    return object.isNull(key) ? 0.0 : object.number(key).value_or(is("gemma2") ? fallback : 0.0);
  };
  if (is("gemma2")) // the reference's gemma3 has the key and does not apply it
    config.attentionSoftcap = softcap("attn_logit_softcapping", 50.0);
  config.finalSoftcap = softcap("final_logit_softcapping", 30.0);
}

// An option that changes results is refused where nothing computes it.
void ConfigReader::refuseUnsupported() {
  if (object.has("quantization_config"))
    object.fail("quantization_config", "is not supported: expected an unquantised checkpoint (F32, F16 or BF16)");
  for (const char *key : {"add_cross_attention", "use_bidirectional_attention"})
    if (object.boolean(key).value_or(false))
      object.fail(key, "is true, which is not supported");
}

Expected<ModelConfig> ConfigReader::read() {
  refuseUnsupported();
  readSizes();
  HEDDLE_RETURN_IF_ERROR(object.status());
  MoeConfig &moe = config.moe;
  moe.intermediateSize = 1; // known, and checked again, after the sizes of the layers are bounded
  HEDDLE_RETURN_IF_ERROR(validateSizes(config, object.file()));
  readFlags();
  readActivation();
  readWindows();
  readExperts();
  readScales();
  if (object.status().isOk())
    readRopes(object, architecture, config);
  if (architecture.isLatent && object.status().isOk())
    setDeepSeekScale(config);
  readIds(object, config);
  HEDDLE_RETURN_IF_ERROR(object.status());
  HEDDLE_RETURN_IF_ERROR(validateSizes(config, object.file()));
  return config;
}

void readGeneration(JsonObject &object, ModelConfig &config) {
  std::vector<int64_t> eos = object.integers("eos_token_id");
  if (!eos.empty())
    config.eosIds = eos;
  if (std::optional<int64_t> bos = object.integer("bos_token_id"))
    config.bosId = bos;
  if (std::optional<int64_t> pad = object.integer("pad_token_id"))
    config.padId = *pad == -1 ? std::nullopt : pad;
  if (std::optional<int64_t> start = object.integer("decoder_start_token_id"))
    config.decoderStartId = start;
  config.doSample = object.boolean("do_sample").value_or(false);
  config.temperature = object.number("temperature").value_or(1.0);
  config.topP = object.number("top_p").value_or(1.0);
  config.topK =
      object.integer("top_k").value_or(config.doSample ? 50 : 0); // 50: the default of Hugging Face's generate
  config.repetitionPenalty = object.number("repetition_penalty").value_or(1.0);
}

bool isThere(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0;
}

// generation_config.json, which overrides config.json; there may be none.
Status readGenerationFile(const std::string &directory, ModelConfig &config) {
  std::string path = directory + "/generation_config.json";
  if (!isThere(path))
    return Status();
  Expected<JsonFile> json = readConfigFile(path, maxConfigBytes);
  if (!json)
    return json.status();
  JsonObject defaults(json->root, path);
  readGeneration(defaults, config);
  HEDDLE_RETURN_IF_ERROR(defaults.status());
  return validateGeneration(config, path);
}

} // namespace

Expected<ModelConfig> readHuggingFaceConfig(const std::string &directory) {
  std::string path = directory + "/config.json";
  Expected<JsonFile> json = readConfigFile(path, maxConfigBytes);
  if (!json)
    return json.status();
  JsonObject top(json->root, path);
  std::string type = top.string("model_type").value_or("");
  // gemma3 with images keeps its text model in text_config.
  bool isNested = type == "gemma3" && top.has("text_config");
  JsonObject object = isNested ? top.object("text_config") : top;
  HEDDLE_RETURN_IF_ERROR(top.status());
  const Architecture *architecture = findArchitecture(isNested ? "gemma3_text" : type);
  if (type.empty())
    return errorIn(path, "model_type is missing; known architectures: " + knownArchitectures(false));
  if (!architecture)
    return errorIn(path, "architecture '" + printable(type, 64) +
                             "' (model_type) is not supported; known architectures: " + knownArchitectures(false));
  Expected<ModelConfig> config = ConfigReader(object, *architecture).read();
  if (!config)
    return config;
  if (isNested && config->eosIds.empty())
    config->eosIds = top.integers("eos_token_id");
  HEDDLE_RETURN_IF_ERROR(validateGeneration(*config, path));
  HEDDLE_RETURN_IF_ERROR(readGenerationFile(directory, *config));
  return config;
}

Status readConfigBesideGraph(const std::string &directory, ModelConfig &config) {
  std::string path = directory + "/config.json";
  if (isThere(path)) {
    Expected<JsonFile> json = readConfigFile(path, maxConfigBytes);
    if (!json)
      return json.status();
    JsonObject object(json->root, path);
    if (std::optional<std::string> type = object.string("model_type"))
      config.architecture = printable(*type, 64);
    for (const char *key : {"max_position_embeddings", "n_positions"})
      if (std::optional<int64_t> length = object.integer(key)) {
        if (*length < 1)
          object.fail(key, "is " + std::to_string(*length) + ", expected at least 1");
        config.contextLength = std::min(config.contextLength, *length);
      }
    readIds(object, config);
    HEDDLE_RETURN_IF_ERROR(object.status());
    HEDDLE_RETURN_IF_ERROR(validateGeneration(config, path));
  }
  return readGenerationFile(directory, config);
}

} // namespace heddle
