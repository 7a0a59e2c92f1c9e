// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/huggingface/Config.h"
#include "bytes/Status.h"
#include "frontends/Json.h"
#include "frontends/huggingface/GenerationConfig.h"
#include "frontends/huggingface/SentenceTransformers.h"

#include <algorithm>
#include <cmath>

namespace heddle {

void keepOffsets(const JsonObject &object, ModelConfig &config) {
  size_t prefix = object.keyPrefix().size(); // of the part of a multimodal config, which names of fields leave out
  for (const auto &[key, offset] : object.offsets())
    if (key.compare(0, prefix, object.keyPrefix()) == 0)
      config.valueOffsets[placeKey(object.file(), key.substr(prefix))] = offset;
}

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
    {"relu2", Activation::SquaredRelu},
    {"quick_gelu", Activation::QuickGelu},
    {"tanh", Activation::Tanh},
};

void readIds(JsonObject &object, ModelConfig &config) {
  config.bosId = object.integer("bos_token_id");
  config.eosIds = object.integers("eos_token_id");
  config.padId = object.integer("pad_token_id");
  if (config.family && config.family->isEncoderDecoder)
    config.decoderStartId = object.integer("decoder_start_token_id");
  if (config.padId == -1) // published llama checkpoints say "none" this way
    config.padId.reset();
}

// id2label, or as many names as num_labels says where that has another number.
void readLabels(JsonObject &object, ModelConfig &config) {
  constexpr int64_t most = 1 << 20;
  JsonValue names = object.find("id2label");
  int64_t named = 0;
  for (JsonItems entries(names); entries.next();)
    ++named;
  int64_t count = object.integer("num_labels").value_or(names ? named : 2);
  if (count != named)
    names = JsonValue();
  if (count < 1 || count > most)
    return object.fail(names ? "id2label" : "num_labels",
                       "stands for " + std::to_string(count) + " labels, expected 1 to " + std::to_string(most));
  config.labels.resize(size_t(count));
  for (int64_t label = 0; label < count && !names; ++label)
    config.labels[size_t(label)] = "LABEL_" + std::to_string(label);
  std::vector<bool> isNamed(static_cast<size_t>(count));
  for (JsonItems entries(names); entries.next();) {
    std::string key = entries.key.string();
    int64_t label = -1;
    bool isNumber = !key.empty() && key.size() < 8 && key.find_first_not_of("0123456789") == std::string::npos;
    if (isNumber)
      label = std::stoll(key);
    if (label < 0 || label >= count || isNamed[size_t(label)] || !entries.value.is(JsonKind::String))
      return object.fail("id2label", "has '" + printable(key, 64) + "': expected names of the labels 0 to " +
                                         std::to_string(count - 1));
    config.labels[size_t(label)] = entries.value.string();
    isNamed[size_t(label)] = true;
  }
}

// The class that wrote the file says what is computed beyond hidden states.
void readHead(JsonObject &object, ModelConfig &config) {
  for (const std::string &architecture : object.strings("architectures"))
    for (const Head &head : config.family->heads)
      if (!config.head && architecture == head.architecture)
        config.head = &head;
  HeadTask task = config.head ? config.head->task : HeadTask::None;
  if (task == HeadTask::Classify || task == HeadTask::ClassifyTokens)
    readLabels(object, config);
  std::string problem = object.string("problem_type").value_or("");
  if (problem == "regression")
    config.labelScores = LabelScores::Plain;
  else if (problem == "multi_label_classification" || config.labels.size() == 1)
    config.labelScores = LabelScores::Sigmoid;
  else if (!problem.empty() && problem != "single_label_classification")
    object.unsupported("problem_type", "is '" + printable(problem, 64) +
                                           "', which is not supported; expected regression, "
                                           "single_label_classification or multi_label_classification");
}

// Whether the row is of a decoder, and of nothing beside it.
bool generatesAlone(const Family &family) {
  return !family.isEncoder && !family.isGraph && !family.isEncoderDecoder && !family.towerModel;
}

// Reads one config object, the model's own or the text part of a multimodal one.
class ConfigReader {
public:
  ConfigReader(JsonObject &object, const Family &family, DecoderUse use = DecoderUse::Generate)
      : object(object), family(family) {
    config.family = &family;
    config.architecture = family.modelType;
    config.source = "huggingface";
    readAliases();
    readUse(use);
  }
  Expected<ModelConfig> read();

private:
  void readAliases();
  void readUse(DecoderUse use);
  void checkUse();
  void readSizes();
  void readHeads();
  void readFlags();
  void readActivation();
  int64_t readWindow();
  void readWindows();
  std::vector<std::string> defaultLayerTypes(int64_t window);

  JsonObject &object;
  const Family &family;
  ModelConfig config;
};

// What has no form without a cache.
void ConfigReader::checkUse() {
  if (config.hasWindows() && config.attendsAhead && !object.boolean("is_causal").value_or(true))
    object.unsupported("is_causal", "is false, which is not supported of layers with a window; expected true");
  if (const char *what = withoutEncoding(config); what && config.embedsTexts)
    object.fail(std::string("the model embeds texts, which is not supported of ") + what + ": expected --task=generate",
                StatusCode::Unsupported);
}

// Of several names for one key the last counts, as the reference sets them in turn.
void ConfigReader::readAliases() {
  std::map<std::string, uint64_t> offsets;
  for (const KeyAlias &entry : family.aliases) {
    if (!object.has(entry.alias))
      continue;
    object.pass(entry.own);
    uint64_t offset = object.offsetOf(entry.alias);
    if (auto [place, isFirst] = offsets.try_emplace(entry.own, offset); isFirst || place->second < offset) {
      place->second = offset;
      config.spelled[entry.own] = entry.alias;
    }
  }
}

// A decoder whose tokens attend to all of their text generates nothing.
void ConfigReader::readUse(DecoderUse use) {
  if (!generatesAlone(family))
    return;
  config.embedsTexts = use == DecoderUse::Encode;
  if (family.mayAttendAhead)
    config.attendsAhead = object.boolean("use_bidirectional_attention").value_or(false);
  if (family.rope.hasRope)
    config.attendsAhead |= !object.boolean("is_causal").value_or(true);
  config.embedsTexts |= config.attendsAhead;
}

void ConfigReader::readSizes() {
  if (family.readers.huggingFaceAllSizes)
    return family.readers.huggingFaceAllSizes(object, config);
  const ConfigDefaults &defaults = family.defaults;
  config.vocabSize = readSize(object, config, "vocab_size", defaults.vocabSize);
  bool isPart = !object.keyPrefix().empty();
  config.hiddenSize = readSize(object, config, "hidden_size", isPart ? defaults.hiddenSize : 0);
  config.numHiddenLayers = defaults.layersOfEncoder
                               ? object.integer(fieldName(config, "num_hidden_layers").c_str())
                                     .value_or(readSize(object, config, "encoder_layers"))
                               : readSize(object, config, "num_hidden_layers", isPart ? defaults.numLayers : 0);
  config.numHeads = readSize(object, config, "num_attention_heads", defaults.numHeads);
  config.contextLength = readSize(object, config, "max_position_embeddings", defaults.context);
  if (family.readers.huggingFaceSizes)
    family.readers.huggingFaceSizes(object, config);
  else
    readHeads();
}

void ConfigReader::readHeads() {
  const ConfigDefaults &defaults = family.defaults;
  // Bounded, so that it cannot overflow before hidden_size is checked.
  int64_t widened = config.hiddenSize <= 1 << 20 ? defaults.widening * config.hiddenSize : 0;
  if (!object.keyPrefix().empty() && !widened)
    widened = defaults.intermediateSize;
  config.intermediateSize = readSize(object, config, "intermediate_size", widened);
  config.normEps = object.number(fieldName(config, "rms_norm_eps").c_str()).value_or(defaults.normEps);
  int64_t evenHead = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  if (family.plainHeads) {
    config.numKvHeads = config.numHeads;
    config.headDim = evenHead;
    return checkEvenHeads(object, config);
  }
  int64_t kvHeads =
      defaults.numKvHeads && !object.isNull("num_key_value_heads") ? defaults.numKvHeads : config.numHeads;
  config.numKvHeads = object.integer("num_key_value_heads").value_or(kvHeads);
  int64_t headDim = object.isNull("head_dim") ? 0 : defaults.headDim;
  config.headDim = object.integer("head_dim").value_or(headDim ? headDim : evenHead);
  if (!object.has("head_dim") && !headDim)
    checkEvenHeads(object, config);
}

void ConfigReader::readFlags() {
  const BiasRules &biases = family.biases;
  config.tieWordEmbeddings = object.boolean("tie_word_embeddings").value_or(family.defaults.tied);
  if (biases.alwaysInQkv)
    object.pass("attention_bias"); // the tensors are there, whatever it says
  bool bias = biases.attentionKey && object.boolean(biases.attentionKey).value_or(biases.attentionDefault);
  config.attentionBias = biases.alwaysInQkv || bias;
  config.attentionOutputBias =
      biases.outputKey ? object.boolean(biases.outputKey).value_or(false) : bias && biases.inOutput;
  config.mlpBias = biases.mlpKey && object.boolean(biases.mlpKey).value_or(biases.mlpDefault);
  config.normWeightOffset = family.normWeightOffset;
  config.parallelResidual = family.parallelResidual;
  config.name = object.string("_name_or_path").value_or("");
}

void ConfigReader::readActivation() {
  config.activation = family.defaults.activation;
  if (!family.activationKey)
    return;
  std::optional<std::string> name = object.string(family.activationKey);
  if (!name)
    return;
  if (std::optional<Activation> activation = activationNamed(*name))
    config.activation = *activation;
  else
    object.fail(family.activationKey,
                "is '" + printable(*name, 64) + "', an unknown activation; known: " + knownActivations());
}

// Tokens that a layer with a window sees; 0: the config has none.
int64_t ConfigReader::readWindow() {
  object.pass("sliding_window"); // a family with no window, or none that is switched on, ignores it
  WindowUse use = family.windows.use;
  bool counts =
      use == WindowUse::Switched ? object.boolean("use_sliding_window").value_or(false) : use == WindowUse::Stated;
  if (!counts || object.isNull("sliding_window"))
    return 0;
  int64_t window = object.integer("sliding_window").value_or(family.defaults.slidingWindow);
  if (window < 0)
    object.fail("sliding_window", "is negative (" + std::to_string(window) + ")");
  else if (window == 0 && object.has("sliding_window"))
    object.fail("sliding_window", "is 0, expected at least 1, or null for none");
  return window;
}

std::vector<std::string> ConfigReader::defaultLayerTypes(int64_t window) {
  const WindowRules &rules = family.windows;
  std::vector<std::string> types(static_cast<size_t>(config.numHiddenLayers), rules.recurrentType ? rules.recurrentType
                                                                              : window > 0 || rules.slidesAlways
                                                                                  ? "sliding_attention"
                                                                                  : "full_attention");
  int64_t period = rules.fullEvery;
  if (rules.statesFullEvery) {
    std::string key = fieldName(config, "sliding_window_pattern");
    period = object.integer(key.c_str()).value_or(object.integer("_sliding_window_pattern").value_or(rules.fullEvery));
    if (period < 1)
      object.fail(key.c_str(), "is " + std::to_string(period) + ", expected a positive number");
  }
  for (int64_t layer = 0; period > 0 && layer < config.numHiddenLayers; ++layer)
    if ((layer + !rules.fullFirst) % period == 0)
      types[layer] = "full_attention";
  if (rules.fullLayersFirst)
    for (int64_t layer = 0;
         layer < std::min(config.numHiddenLayers, object.integer("max_window_layers").value_or(rules.fullLayersFirst));
         ++layer)
      types[layer] = "full_attention";
  if (rules.slidingLayersFirst)
    for (int64_t layer = std::max<int64_t>(0, object.integer("max_window_layers").value_or(rules.slidingLayersFirst));
         layer < config.numHiddenLayers; ++layer)
      types[layer] = "full_attention";
  return types;
}

// Which layers see the last `sliding_window` tokens only.
void ConfigReader::readWindows() {
  const WindowRules &rules = family.windows;
  int64_t window = readWindow();
  std::vector<std::string> types = object.strings("layer_types");
  // The reference compares the two in every config, also where the family's model does not read the types.
  if (object.has("layer_types") && types.size() != static_cast<size_t>(config.numHiddenLayers))
    object.fail("layer_types", "has " + std::to_string(types.size()) + " entries, expected " +
                                   fieldName(config, "num_hidden_layers") + " (" +
                                   std::to_string(config.numHiddenLayers) + ")");
  if (!rules.readsLayerTypes || !object.has("layer_types"))
    types = defaultLayerTypes(window);
  bool isOff = rules.use == WindowUse::Switched && !object.boolean("use_sliding_window").value_or(false);
  config.layerWindow.assign(static_cast<size_t>(config.numHiddenLayers), 0);
  if (rules.recurrentType)
    config.recurrent.layers.assign(config.layerWindow.size(), false);
  for (size_t layer = 0; layer < std::min(types.size(), config.layerWindow.size()); ++layer) {
    const char *other = rules.recurrentType ? rules.recurrentType : "sliding_attention";
    if (types[layer] != "full_attention" && types[layer] != other)
      object.fail("layer_types", "holds '" + printable(types[layer], 64) + "', expected full_attention or " + other);
    else if (rules.recurrentType)
      config.recurrent.layers[layer] = types[layer] == rules.recurrentType;
    else if (types[layer] == "sliding_attention" && window == 0)
      object.fail("layer_types", "holds sliding_attention, but " +
                                     std::string(isOff ? "use_sliding_window is false" : "sliding_window is null"));
    else
      config.layerWindow[layer] = types[layer] == "sliding_attention" ? window : 0;
  }
}

} // namespace

Expected<ModelConfig> ConfigReader::read() {
  readSizes();
  HEDDLE_RETURN_IF_ERROR(object.status());
  keepOffsets(object, config);
  MoeConfig &moe = config.moe;
  moe.intermediateSize = 1; // known, and checked again, after the sizes of the layers are bounded
  HEDDLE_RETURN_IF_ERROR(validateSizes(config, object.file()));
  readFlags();
  readActivation();
  readWindows();
  moe.layerIsMoe.assign(static_cast<size_t>(config.numHiddenLayers), false);
  config.layerRope.assign(static_cast<size_t>(config.numHiddenLayers), 0);
  if (object.status().isOk())
    readRopes(object, config);
  if (family.heads.count)
    readHead(object, config);
  if (family.readers.huggingFaceRest)
    family.readers.huggingFaceRest(object, config);
  if (!family.isGraph) // which generates nothing
    readIds(object, config);
  checkUse();
  refuseUnread(object, config);
  HEDDLE_RETURN_IF_ERROR(object.status());
  keepOffsets(object, config);
  HEDDLE_RETURN_IF_ERROR(validateSizes(config, object.file()));
  return config;
}

std::optional<Activation> activationNamed(std::string_view name) {
  for (const ActivationName &entry : activationNames)
    if (name == entry.name)
      return entry.activation;
  return std::nullopt;
}

std::string knownActivations() {
  std::string known;
  for (const ActivationName &entry : activationNames)
    known += std::string(known.empty() ? "" : ", ") + entry.name;
  return known;
}

int64_t readSize(JsonObject &object, const ModelConfig &config, const char *key, int64_t fallback) {
  std::string name = fieldName(config, key);
  std::optional<int64_t> value = object.integer(name.c_str());
  if (!value && !fallback)
    object.fail(name.c_str(), "is missing");
  return value.value_or(fallback);
}

void checkEvenHeads(JsonObject &object, const ModelConfig &config) {
  if (config.numHeads > 0 && config.hiddenSize % config.numHeads != 0)
    object.fail(fieldName(config, "hidden_size").c_str(),
                "(" + std::to_string(config.hiddenSize) + ") must be a multiple of " +
                    fieldName(config, "num_attention_heads") + " (" + std::to_string(config.numHeads) + ")");
}

double readSoftcap(JsonObject &object, const char *key, double fallback) {
  if (object.isNull(key))
    return 0.0;
  double cap = object.number(key).value_or(fallback);
  if (object.has(key) && (!(cap > 0.0) || !std::isfinite(cap)))
    object.fail(key, "is " + std::to_string(cap) + ", expected a positive number, or null for none");
  return cap;
}

void readExpertCounts(JsonObject &object, ModelConfig &config, int64_t numExperts, int64_t expertsPerToken) {
  MoeConfig &moe = config.moe;
  std::string count = fieldName(config, "num_local_experts");
  moe.numExperts = object.integer(count.c_str()).value_or(numExperts);
  moe.expertsPerToken = object.integer(fieldName(config, "num_experts_per_tok").c_str()).value_or(expertsPerToken);
  if (moe.numExperts < 1)
    object.fail(count.c_str(), "is " + std::to_string(moe.numExperts) + ", expected at least 1");
}

// The family of a config, and whether its keys stand in text_config, whose model_type tells families with one wrapper apart: it is the last of them
// where it names none. What also sees images is a family of its own, where the files say of what.
static const Family *familyOf(const JsonObject &top, const FamilyList &families, const std::string &type,
                              bool &isNested) {
  JsonValue inner = top.find("text_config").find("model_type");
  const Family *wrapped = nullptr;
  bool isNamed = false;
  for (const Family *family : families)
    if (family->wrapper && type == family->wrapper && top.has("text_config") && !isNamed) {
      wrapped = family;
      isNamed = inner.equals(family->modelType);
    }
  isNested = wrapped != nullptr;
  for (const Family *family : families)
    if (family->towerModel && type == family->modelType && top.has("vision_config"))
      return family;
  return wrapped ? wrapped : findFamily(families, type);
}

// The row that a part's model_type, or what stands for it, names; of several that of parts of the whole, `whole` being its model_type.
static const Family *partOf(JsonObject &part, const FamilyList &families, std::string_view whole, const char *fallback,
                            bool (*fits)(const Family &)) {
  std::string type = part.string("model_type").value_or(fallback), known;
  const Family *found = nullptr;
  for (const Family *family : families) {
    if (!fits(*family))
      continue;
    known += (known.empty() ? "" : ", ") + std::string(family->modelType);
    bool isNamed = type == family->modelType || (family->wrapper && type == family->wrapper) ||
                   (family->olderPart && type == family->olderPart);
    if (isNamed && (!found || (family->wrapper && family->wrapper == whole)))
      found = family;
  }
  if (found)
    return found;
  part.unsupported("model_type", "is '" + printable(type, 64) + "', which is not supported; known: " + known);
  return nullptr;
}

Status joinTower(JsonObject &top, const Family &joint, const FamilyList &families, ModelConfig &config) {
  JsonObject vision = top.object("vision_config");
  auto sees = [](const Family &family) { return family.hiddenStates != nullptr; };
  const Family *tower = partOf(vision, families, joint.modelType, joint.towerModel, sees);
  top.adopt(vision);
  HEDDLE_RETURN_IF_ERROR(top.status());
  Expected<ModelConfig> seeing = ConfigReader(vision, *tower).read();
  if (!seeing)
    return seeing.status();
  config.architecture = joint.modelType;
  config.tower = std::make_shared<ModelConfig>(std::move(*seeing));
  config.tower->seen.joint = &joint;
  config.tower->head = joint.heads.first;
  config.tower->projectionSize = config.hiddenSize;
  joint.readers.huggingFaceJoint(top, config, *config.tower);
  return top.status();
}

// A decoder and the tower whose hidden states stand for tokens of its prompts, either read by its own row.
static Expected<ModelConfig> readJoint(JsonObject &top, const Family &joint, const FamilyList &families,
                                       DecoderUse use) {
  // Older files have what is of texts beside vision_config.
  bool isFlat = joint.mayBeFlat && !top.has("text_config");
  JsonObject text = isFlat ? top : top.object("text_config");
  if (!top.has("vision_config"))
    top.fail("vision_config", "is missing");
  const Family *decoder = partOf(text, families, joint.modelType, joint.textModel, generatesAlone);
  top.adopt(text);
  HEDDLE_RETURN_IF_ERROR(top.status());
  if (joint.promptSeesAhead)
    text.pass("use_bidirectional_attention");
  bool encodes = use == DecoderUse::Encode;
  Expected<ModelConfig> config =
      ConfigReader(text, *decoder, encodes ? DecoderUse::Encode : DecoderUse::Generate).read();
  if (!config)
    return config;
  if (encodes || use == DecoderUse::Text) {
    config->seen.joint = &joint;
    return config;
  }
  // The reference's head is a product alone, whatever the decoder's own class does behind it; of some families it is capped.
  config->logitScale = 1.0;
  if (!joint.capsLogits)
    config->finalSoftcap = 0.0;
  config->tieWordEmbeddings |= top.boolean("tie_word_embeddings").value_or(false);
  if (config->attendsAhead)
    return errorIn(top.file(),
                   "text_config attends to tokens ahead, which is not supported of a model that sees images")
        .as(StatusCode::Unsupported);
  if (config->embeddingSize)
    text.unsupported("word_embed_proj_dim", "is not hidden_size, which is not supported of a model that sees images");
  top.adopt(text);
  HEDDLE_RETURN_IF_ERROR(joinTower(top, joint, families, *config));
  if (!isFlat)
    refuseUnread(top, *config->tower);
  HEDDLE_RETURN_IF_ERROR(top.status());
  return config;
}

Expected<ModelConfig> readHuggingFaceConfig(ModelFiles &files, const FamilyList &families, DecoderUse use) {
  std::string path = files.pathOf("config.json");
  Expected<JsonFile> json = readConfigFile(files, "config.json", maxConfigBytes);
  if (!json)
    return json.status();
  JsonObject top(*json, path);
  std::string type = top.string("model_type").value_or("");
  bool isNested = false;
  const Family *family = familyOf(top, families, type, isNested);
  bool isWhole = family && family->towerModel;
  JsonObject object = isNested && !isWhole ? top.object("text_config") : top;
  HEDDLE_RETURN_IF_ERROR(top.status());
  if (type.empty())
    return errorIn(path, "model_type is missing; known architectures: " + knownFamilies(families));
  if (!family)
    return errorIn(path, "architecture '" + printable(type, 64) +
                             "' (model_type) is not supported; known architectures: " + knownFamilies(families))
        .as(StatusCode::Unsupported);
  isNested |= family->towerModel != nullptr;
  if (use == DecoderUse::Stated)
    use = isSentenceTransformer(files) ? DecoderUse::Encode : DecoderUse::Generate;
  Expected<ModelConfig> config =
      family->towerModel ? readJoint(top, *family, families, use) : ConfigReader(object, *family, use).read();
  if (!config)
    return config;
  bool generates = !family->isGraph && !config->encodes();
  JsonObject stated = statedGeneration(top);
  if (generates && isNested)
    readIds(stated, *config);
  HEDDLE_RETURN_IF_ERROR(stated.status());
  HEDDLE_RETURN_IF_ERROR(validateGeneration(*config, path));
  HEDDLE_RETURN_IF_ERROR(readGenerationDefaults(files, generates ? &stated : nullptr, *config));
  // As the reference: a decoder starts with its own token, else with that of any text.
  if (family->isEncoderDecoder && !config->decoderStartId)
    config->decoderStartId = config->bosId;
  if (family->isEncoderDecoder && !config->decoderStartId)
    return errorIn(path, "decoder_start_token_id is missing: expected the token that an answer begins behind");
  return config;
}

Status readConfigBesideGraph(ModelFiles &files, ModelConfig &config) {
  if (!files.has("config.json"))
    return readGenerationDefaults(files, nullptr, config);
  std::string path = files.pathOf("config.json");
  Expected<JsonFile> json = readConfigFile(files, "config.json", maxConfigBytes);
  if (!json)
    return json.status();
  JsonObject object(*json, path);
  if (std::optional<std::string> type = object.string("model_type"))
    config.architecture = printable(*type, 64);
  for (const char *key : {"max_position_embeddings", "n_positions"})
    if (std::optional<int64_t> length = object.integer(key)) {
      if (*length < 1)
        object.fail(key, "is " + std::to_string(*length) + ", expected at least 1");
      config.contextLength = std::min(config.contextLength, *length);
    }
  JsonObject stated = statedGeneration(object);
  readIds(stated, config);
  object.adopt(stated);
  HEDDLE_RETURN_IF_ERROR(object.status());
  keepOffsets(object, config);
  HEDDLE_RETURN_IF_ERROR(validateGeneration(config, path));
  return readGenerationDefaults(files, &stated, config);
}

} // namespace heddle
