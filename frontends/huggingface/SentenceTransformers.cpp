// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The files of sentence-transformers beside a checkpoint: modules.json lists what is computed one after the other, each module's type by its
// class in Python; pooling modules and dense layers have folders with a config, dense layers weights beside it.

#include "frontends/huggingface/SentenceTransformers.h"
#include "bytes/Status.h"
#include "frontends/huggingface/Config.h"
#include "frontends/huggingface/Safetensors.h"

#include <algorithm>

namespace heddle {
namespace {

using Mode = PoolingConfig::Mode;

struct ModeName {
  const char *name, *flag; // in newer files pooling_mode names it, in older ones a flag is true
  Mode mode;
};
// In the order in which sentence-transformers joins several of them.
constexpr ModeName modeNames[] = {
    {"cls", "pooling_mode_cls_token", Mode::Cls},
    {"max", "pooling_mode_max_tokens", Mode::Max},
    {"mean", "pooling_mode_mean_tokens", Mode::Mean},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", Mode::MeanSqrtLength},
    {"weightedmean", "pooling_mode_weightedmean_tokens", Mode::WeightedMean},
    {"lasttoken", "pooling_mode_lasttoken", Mode::LastToken},
};

Status readModes(ModelFiles &files, const std::string &name, PoolingConfig &pooling) {
  Expected<JsonFile> json = readConfigFile(files, name, maxConfigBytes);
  if (!json)
    return json.status();
  JsonObject object(*json, files.pathOf(name));
  std::vector<std::string> named;
  if (object.find("pooling_mode").is(JsonKind::String))
    named.push_back(object.string("pooling_mode").value_or(""));
  else
    named = object.strings("pooling_mode");
  for (const std::string &mode : named) {
    bool isKnown = false;
    for (const ModeName &entry : modeNames)
      if (mode == entry.name) {
        pooling.modes.push_back(entry.mode);
        isKnown = true;
      }
    if (!isKnown)
      object.unsupported("pooling_mode", "is '" + printable(mode, 64) + "', which is not supported");
  }
  for (const ModeName &entry : modeNames)
    if (object.boolean(entry.flag).value_or(false) && named.empty())
      pooling.modes.push_back(entry.mode);
  if (!object.boolean("include_prompt").value_or(true))
    object.unsupported("include_prompt", "is false, which is not supported: prompts are pooled with their texts");
  if (object.status().isOk() && pooling.modes.empty())
    object.fail("names no pooling mode");
  return object.status();
}

// "torch.nn.modules.activation.Tanh" of "torch.nn." -> "Tanh"; of another package: "".
std::string className(const std::string &type, std::string_view package) {
  return type.compare(0, package.size(), package) ? "" : type.substr(type.rfind('.') + 1);
}

struct LayerActivation {
  const char *name;
  std::optional<Activation> activation;
};
const LayerActivation layerActivations[] = {
    {"Identity", {}},           {"Tanh", Activation::Tanh}, {"ReLU", Activation::Relu},
    {"GELU", Activation::Gelu}, {"SiLU", Activation::Silu},
};

// A width is one of the model's, times the number of ways to pool.
constexpr int64_t maxDenseWidth = 1 << 24;

Status readDense(ModelFiles &files, const std::string &path, PoolingConfig &pooling) {
  std::string name = path + "/config.json";
  Expected<JsonFile> json = readConfigFile(files, name, maxConfigBytes);
  if (!json)
    return json.status();
  JsonObject object(*json, files.pathOf(name));
  PoolingConfig::Dense dense;
  dense.path = path;
  dense.name = "sentence_transformers.dense." + std::to_string(pooling.dense.size()); // no checkpoint's
  dense.in = object.bounded("in_features", object.integer("in_features").value_or(0), 1, maxDenseWidth);
  dense.out = object.bounded("out_features", object.integer("out_features").value_or(0), 1, maxDenseWidth);
  dense.hasBias = object.boolean("bias").value_or(true);
  std::string activation = object.string("activation_function").value_or("Tanh");
  bool isKnown = false;
  for (const LayerActivation &entry : layerActivations)
    if (className(activation, "torch.nn.") == entry.name) {
      dense.activation = entry.activation;
      isKnown = true;
    }
  if (!isKnown)
    object.unsupported("activation_function",
                       "is '" + printable(activation, 64) +
                           "', which is not supported; expected Identity, Tanh, ReLU, GELU or SiLU of torch.nn");
  for (const char *key : {"module_input_name", "module_output_name"})
    if (std::string of = object.string(key).value_or("sentence_embedding"); of != "sentence_embedding")
      object.unsupported(key, "is '" + printable(of, 64) + "', which is not supported; expected sentence_embedding");
  if (object.boolean("use_residual").value_or(false))
    object.unsupported("use_residual", "is true, which is not supported; expected false");
  pooling.dense.push_back(dense);
  return object.status();
}

// The kinds of modules that are computed here, in their order, and how many of each: a Transformer, and behind it Pooling before all else.
struct ModuleKind {
  const char *name;
  bool isOne; // of these there is one
};
constexpr ModuleKind moduleKinds[] = {{"Transformer", true}, {"Pooling", true}, {"Dense", false}, {"Normalize", false}};

// What a module does, by its class. `next`: the first of the kinds that may stand here.
Status readModule(ModelFiles &files, JsonValue module, size_t &next, PoolingConfig &pooling) {
  std::string type = module.find("type").string(), path = module.find("path").string();
  std::string kind = className(type, "sentence_transformers.");
  size_t place = 0;
  while (place < std::size(moduleKinds) && kind != moduleKinds[place].name)
    ++place;
  bool isKnown = place < std::size(moduleKinds);
  bool isSkipped = next < std::size(moduleKinds) && moduleKinds[next].isOne && place != next;
  if (!isKnown || isSkipped || place < next || (place == 0 && !path.empty()))
    return errorIn(files.pathOf("modules.json"), "module '" + printable(path, 64) + "' is a '" + printable(type, 80) +
                                                     "', expected a Transformer in this folder, then Pooling, Dense "
                                                     "layers and Normalize")
        .as(StatusCode::Unsupported);
  next = place + moduleKinds[place].isOne;
  if (kind == "Pooling")
    return readModes(files, path + "/config.json", pooling);
  if (kind == "Dense")
    return readDense(files, path, pooling);
  pooling.normalizes |= kind == "Normalize";
  return Status();
}

// Each dense layer takes what stands before it.
Status checkDense(ModelFiles &files, const ModelConfig &config, const PoolingConfig &pooling) {
  int64_t width = config.hiddenSize * static_cast<int64_t>(pooling.modes.size());
  for (const PoolingConfig::Dense &dense : pooling.dense) {
    if (dense.in != width)
      return errorIn(files.pathOf(dense.path + "/config.json"), "in_features is " + std::to_string(dense.in) +
                                                                    ", expected " + std::to_string(width) +
                                                                    ", the width of what stands before the layer");
    width = dense.out;
  }
  return Status();
}

Status readTensorsOf(ModelFiles &files, const PoolingConfig::Dense &dense, Checkpoint &checkpoint) {
  std::string name = dense.path + "/model.safetensors", pickle = dense.path + "/pytorch_model.bin";
  if (!files.has(name) && files.has(pickle))
    return errorIn(files.pathOf(pickle), "pickled weights are not read; convert them to safetensors");
  Expected<SharedFile> file = files.open(name);
  if (!file)
    return file.status();
  Checkpoint own;
  HEDDLE_RETURN_IF_ERROR(readSafetensors(*file, own));
  for (const char *part : {"weight", "bias"}) {
    std::string stored = std::string("linear.") + part;
    const TensorInfo *found = own.find(stored);
    bool isWeight = stored == "linear.weight", isWanted = isWeight || dense.hasBias;
    if (isWanted != bool(found))
      return errorIn(files.pathOf(name), "tensor " + stored + (found ? " is there, and bias is false" : " is missing"));
    if (!found)
      continue;
    std::vector<int64_t> expected = {dense.out};
    if (isWeight)
      expected.push_back(dense.in);
    bool isFloat = found->type == TensorType::F32 || found->type == TensorType::F16 || found->type == TensorType::BF16;
    if (found->shape != expected || !isFloat)
      return errorIn(files.pathOf(name), "tensor " + stored + " is " + tensorTypeInfo(found->type).name + " " +
                                             shapeText(found->shape) + ", expected f32, f16 or bf16 " +
                                             shapeText(expected));
    TensorInfo tensor = *found;
    tensor.file = static_cast<uint32_t>(checkpoint.files.size());
    tensor.storedAs = stored;
    checkpoint.tensors.emplace(dense.name + "." + part, std::move(tensor));
  }
  if (own.tensors.size() > (dense.hasBias ? 2u : 1u))
    return errorIn(files.pathOf(name), "holds " + std::to_string(own.tensors.size()) +
                                           " tensors, expected linear.weight and, with a bias, linear.bias");
  checkpoint.files.push_back(*file);
  return Status();
}

// Where the longest text may be said: for the encoder's module, whose file once had the family's name, or for the tokenizer.
struct LengthKey {
  const char *file, *key;
};
constexpr LengthKey lengthKeys[] = {
    {"sentence_bert_config.json", "max_seq_length"},       {"sentence_roberta_config.json", "max_seq_length"},
    {"sentence_distilbert_config.json", "max_seq_length"}, {"sentence_camembert_config.json", "max_seq_length"},
    {"sentence_albert_config.json", "max_seq_length"},     {"sentence_xlm-roberta_config.json", "max_seq_length"},
    {"tokenizer_config.json", "model_max_length"},
};

Status readMaxTokens(ModelFiles &files, PoolingConfig &pooling) {
  for (const LengthKey &entry : lengthKeys) {
    if (!files.has(entry.file))
      continue;
    Expected<JsonFile> json = readConfigFile(files, entry.file, maxTokenizerConfigBytes);
    if (!json)
      return json.status();
    JsonObject object(*json, files.pathOf(entry.file));
    std::optional<double> most = object.number(entry.key); // tokenizers without a limit have 1e30
    if (most && !(*most >= 1))
      object.fail(entry.key, "is " + jsonNumber(*most) + ", expected at least 1");
    HEDDLE_RETURN_IF_ERROR(object.status());
    if (!most)
      continue;
    pooling.maxTokens = static_cast<int64_t>(std::min(*most, 1e9));
    return Status();
  }
  return Status();
}

// The prompt that is used where the caller names none.
Status readPrompt(ModelFiles &files, PoolingConfig &pooling) {
  const char *name = "config_sentence_transformers.json";
  if (!files.has(name))
    return Status();
  Expected<JsonFile> json = readConfigFile(files, name, maxConfigBytes);
  if (!json)
    return json.status();
  JsonObject object(*json, files.pathOf(name));
  std::optional<std::string> chosen = object.string("default_prompt_name");
  if (chosen) {
    JsonObject prompts = object.object("prompts");
    pooling.prompt = prompts.string(chosen->c_str()).value_or("");
    object.adopt(prompts);
  }
  return object.status();
}

} // namespace

bool isSentenceTransformer(ModelFiles &files) {
  return files.has("modules.json");
}

Status readPooling(ModelFiles &files, ModelConfig &config) {
  PoolingConfig pooling;
  if (isSentenceTransformer(files)) {
    Expected<JsonFile> json = readConfigFile(files, "modules.json", maxConfigBytes);
    if (!json)
      return json.status();
    if (!json->root.is(JsonKind::Array))
      return errorIn(files.pathOf("modules.json"), "holds no array of modules");
    size_t next = 0;
    for (JsonItems modules(json->root); modules.next();)
      HEDDLE_RETURN_IF_ERROR(readModule(files, modules.value, next, pooling));
    HEDDLE_RETURN_IF_ERROR(readPrompt(files, pooling));
  }
  if (pooling.modes.empty())
    pooling.modes = {Mode::Mean};
  HEDDLE_RETURN_IF_ERROR(checkDense(files, config, pooling));
  HEDDLE_RETURN_IF_ERROR(readMaxTokens(files, pooling));
  pooling.maxTokens = std::min(pooling.maxTokens, config.contextLength);
  config.pooling = pooling;
  return Status();
}

Status readDenseTensors(ModelFiles &files, Model &model) {
  if (model.config.pooling)
    for (const PoolingConfig::Dense &dense : model.config.pooling->dense)
      HEDDLE_RETURN_IF_ERROR(readTensorsOf(files, dense, model.checkpoint));
  return Status();
}

} // namespace heddle
