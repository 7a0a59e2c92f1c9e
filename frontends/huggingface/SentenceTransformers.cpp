// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The files of sentence-transformers beside a checkpoint: modules.json lists what is computed one after the other, each module's type by its
// class in Python; a pooling module has a folder with a config.

#include "frontends/huggingface/SentenceTransformers.h"
#include "bytes/Status.h"
#include "frontends/huggingface/Config.h"

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

// What a module does, by the last part of its type.
Status readModule(ModelFiles &files, JsonValue module, PoolingConfig &pooling) {
  std::string type = module.find("type").string(), path = module.find("path").string();
  std::string kind = type.substr(type.rfind('.') + 1);
  if (kind == "Pooling")
    return readModes(files, path + "/config.json", pooling);
  if (kind == "Normalize")
    pooling.normalizes = true;
  else if (kind != "Transformer" || !path.empty())
    return errorIn(files.pathOf("modules.json"), "module '" + printable(path, 64) + "' is a '" + printable(type, 80) +
                                                     "', expected a Transformer in this folder, Pooling and Normalize")
        .as(StatusCode::Unsupported);
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

Status readPooling(ModelFiles &files, ModelConfig &config) {
  PoolingConfig pooling;
  if (files.has("modules.json")) {
    Expected<JsonFile> json = readConfigFile(files, "modules.json", maxConfigBytes);
    if (!json)
      return json.status();
    if (!json->root.is(JsonKind::Array))
      return errorIn(files.pathOf("modules.json"), "holds no array of modules");
    for (JsonItems modules(json->root); modules.next();)
      HEDDLE_RETURN_IF_ERROR(readModule(files, modules.value, pooling));
    HEDDLE_RETURN_IF_ERROR(readPrompt(files, pooling));
  }
  if (pooling.modes.empty())
    pooling.modes = {Mode::Mean};
  HEDDLE_RETURN_IF_ERROR(readMaxTokens(files, pooling));
  pooling.maxTokens = std::min(pooling.maxTokens, config.contextLength);
  config.pooling = pooling;
  return Status();
}

} // namespace heddle
