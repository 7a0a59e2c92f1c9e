// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which modules have an adapter is said by the tensors, and whether a vector of IA3 scales what a module reads or gives by its shape, so that keys
// that choose modules before training are passed over here.
#include "frontends/peft/AdapterConfig.h"

#include "frontends/huggingface/Config.h"
#include "frontends/huggingface/JsonObject.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace heddle {

namespace {

constexpr const char *configName = "adapter_config.json";

// Keys that tell how an adapter was trained, or which modules it has, as its tensors do. A linear layer that is stored as (in, out), which
// fan_in_fan_out speaks of, has the same product as any other.
constexpr const char *passedKeys[] = {
    "auto_mapping",    "base_model_name_or_path",
    "exclude_modules", "fan_in_fan_out",
    "inference_mode",  "modules_to_save",
    "peft_version",    "revision",
    "target_modules",  "task_type",
};
constexpr const char *passedLoraKeys[] = {
    "ensure_weight_tying", "eva_config",    "layers_pattern",    "layers_to_transform",
    "lora_dropout",        "megatron_core", "qalora_group_size", "runtime_config",
};
constexpr const char *passedIa3Keys[] = {"feedforward_modules", "init_ia3_weights"};
// How virtual tokens began, and what computed them while they were trained: their results are saved.
constexpr const char *passedPromptKeys[] = {
    "encoder_dropout",
    "encoder_hidden_size",
    "encoder_num_layers",
    "encoder_reparameterization_type",
    "init_weights",
    "num_layers",
    "prefix_projection",
    "prompt_tuning_init",
    "prompt_tuning_init_text",
    "tokenizer_kwargs",
    "tokenizer_name_or_path",
    "token_dim",
};
constexpr int64_t mostVirtualTokens = 1 << 16;

// Initialisations that leave the base's weights as they are.
constexpr std::string_view plainInitializations[] = {"true",         "false",   "null",
                                                     "\"gaussian\"", "\"eva\"", "\"orthogonal\""};

template <typename List> bool contains(const List &list, std::string_view value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

// null, false, [], {}: a switch that is off.
bool isOff(JsonValue value) {
  bool isEmpty = (value.is(JsonKind::Array) || value.is(JsonKind::Object)) && !JsonItems(value).next();
  return isEmpty || value.is(JsonKind::Null) || value.raw() == "false";
}

// Patterns are regular expressions to peft; names are all that is published. A dot in one stands for itself.
void readPattern(JsonObject &object, const char *key, std::vector<std::pair<std::string, double>> &out) {
  JsonValue found = object.find(key);
  if (found && !found.is(JsonKind::Object))
    return object.fail(key, "is " + printable(found.raw(), 64) + ", expected an object of numbers by module");
  for (JsonItems items(found); items.next();) {
    std::string name = items.key.string();
    double value = 0;
    if (!items.value.number(value) || !(value > 0) || !std::isfinite(value))
      return object.fail(key, "'" + printable(name) + "' is " + printable(items.value.raw(), 64) +
                                  ", expected a positive number");
    name.erase(std::remove(name.begin(), name.end(), '\\'), name.end());
    if (name.empty() || name.find_first_of("*+?()[]{}|$", 0) != std::string::npos)
      return object.unsupported(key, "'" + printable(items.key.string()) +
                                         "' is a regular expression, which is not supported: expected a module's name");
    out.emplace_back(std::move(name), value);
  }
}

bool matches(const std::string &pattern, const std::string &module) {
  if (pattern[0] == '^')
    return module == pattern.substr(1);
  size_t length = pattern.size();
  return module == pattern || (module.size() > length && module.compare(module.size() - length, length, pattern) == 0 &&
                               module[module.size() - length - 1] == '.');
}

double valueOf(const std::vector<std::pair<std::string, double>> &patterns, const std::string &module, double other) {
  for (const auto &[pattern, value] : patterns)
    if (matches(pattern, module))
      return value;
  return other;
}

double readPositive(JsonObject &object, const char *key, double absent) {
  double value = object.number(key).value_or(absent);
  if (!(value > 0) || !std::isfinite(value))
    object.fail(key, "is " + std::to_string(value) + ", expected a positive number");
  return value;
}

} // namespace

void refuseUnasked(JsonObject &object, JsonValue value) {
  for (JsonItems items(value); items.next();) {
    std::string key = items.key.string();
    if (!object.wasAsked(key.c_str()) && !isOff(items.value))
      object.unsupported(key.c_str(),
                         "is " + printable(items.value.raw(), 64) + ", which is not supported: expected null or false");
  }
}

double AdapterConfig::rankOf(const std::string &module) const {
  return valueOf(rankPattern, module, rank);
}

double AdapterConfig::factorOf(const std::string &module) const {
  double r = rankOf(module);
  return valueOf(alphaPattern, module, alpha) / (isRankStabilized ? std::sqrt(r) : r);
}

static void readLora(JsonObject &object, AdapterConfig &config) {
  config.rank = readPositive(object, "r", config.rank);
  config.alpha = readPositive(object, "lora_alpha", config.alpha);
  config.isRankStabilized = object.boolean("use_rslora").value_or(false);
  config.normalizesRows = object.boolean("use_dora").value_or(false);
  std::string bias = object.string("bias").value_or("none");
  if (bias != "none" && bias != "all" && bias != "lora_only")
    object.fail("bias", "is '" + printable(bias) + "', expected none, all or lora_only");
  readPattern(object, "rank_pattern", config.rankPattern);
  readPattern(object, "alpha_pattern", config.alphaPattern);
  if (JsonValue start = object.find("init_lora_weights"); start && !contains(plainInitializations, start.raw()))
    object.unsupported("init_lora_weights", "is " + printable(start.raw(), 64) +
                                                ", which changes the base's weights: convert the adapter "
                                                "(save_pretrained with path_initial_model_for_weight_conversion)");
  for (const char *key : passedLoraKeys)
    object.pass(key);
}

static void readPrompt(JsonObject &object, AdapterConfig &config) {
  config.numVirtualTokens = object.integer("num_virtual_tokens").value_or(0);
  if (config.numVirtualTokens < 1 || config.numVirtualTokens > mostVirtualTokens)
    object.fail("num_virtual_tokens", "is " + std::to_string(config.numVirtualTokens) + ", expected 1 … " +
                                          std::to_string(mostVirtualTokens));
  config.numHeads = object.integer("num_attention_heads").value_or(0);
  if (int64_t parts = object.integer("num_transformer_submodules").value_or(1); parts != 1)
    object.unsupported("num_transformer_submodules",
                       "is " + std::to_string(parts) + ", which is not supported: expected 1, a decoder's");
  for (const char *key : passedPromptKeys)
    object.pass(key);
}

Expected<AdapterConfig> readAdapterConfig(ModelFiles &files) {
  Expected<JsonFile> json = readConfigFile(files, configName, maxConfigBytes);
  if (!json)
    return json.status();
  JsonObject object(*json, files.pathOf(configName));
  HEDDLE_RETURN_IF_ERROR(object.status());
  AdapterConfig config;
  std::string type = object.string("peft_type").value_or("");
  HEDDLE_RETURN_IF_ERROR(object.status());
  if (type == "IA3") {
    config.kind = AdapterKind::IA3;
    for (const char *key : passedIa3Keys)
      object.pass(key);
  } else if (type == "LORA") {
    readLora(object, config);
  } else if (type == "PROMPT_TUNING" || type == "P_TUNING" || type == "PREFIX_TUNING") {
    config.kind = type == "PREFIX_TUNING" ? AdapterKind::Prefix : AdapterKind::Prompt;
    readPrompt(object, config);
  } else {
    object.unsupported("peft_type", "is '" + printable(type) +
                                        "', which is not supported: expected LORA, IA3, PROMPT_TUNING, P_TUNING or "
                                        "PREFIX_TUNING");
  }
  for (const char *key : passedKeys)
    object.pass(key);
  refuseUnasked(object, json->root);
  HEDDLE_RETURN_IF_ERROR(object.status());
  return config;
}

} // namespace heddle
