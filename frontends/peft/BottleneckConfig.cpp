// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/peft/BottleneckConfig.h"

#include "frontends/huggingface/Config.h"
#include "frontends/huggingface/JsonObject.h"
#include "frontends/peft/AdapterConfig.h"

#include <cmath>

namespace heddle {

static constexpr const char *configName = "adapter_config.json";

// Keys that tell how an adapter was trained, began or came to be, or refine others that are refused.
static constexpr const char *passedKeys[] = {
    "dropout",         "factorized_phm_W",
    "init_weights",    "factorized_phm_rule",
    "learn_phm",       "hypercomplex_nonlinearity",
    "phm_bias",        "init_weights_seed",
    "phm_c_init",      "inv_adapter_reduction_factor",
    "phm_dim",         "phm_init_range",
    "phm_rank",        "shared_W_phm",
    "shared_phm_rule", "stochastic_depth",
};
static constexpr const char *passedOuterKeys[] = {"config_id", "model_class", "model_name", "version"};

static std::optional<JsonFile> readJson(ModelFiles &files) {
  if (!files.isFolder() || !files.has(configName))
    return std::nullopt;
  Expected<JsonFile> json = readConfigFile(files, configName, maxConfigBytes);
  return json ? std::optional<JsonFile>(std::move(*json)) : std::nullopt;
}

bool isAdapterHub(ModelFiles &files) {
  std::optional<JsonFile> json = readJson(files);
  return json && json->root.find("config").is(JsonKind::Object) && !json->root.find("peft_type");
}

int64_t BottleneckConfig::widthOf(int64_t layer, int64_t hiddenSize) const {
  auto own = reductions.find(layer);
  double by = own == reductions.end() ? reduction : own->second;
  // The quotient is rounded down as Python's // does, which fmod tells of numbers just below a whole one.
  return by == 0 ? 0
                 : std::max<int64_t>(1, std::llround((double(hiddenSize) - std::fmod(double(hiddenSize), by)) / by));
}

static void readReductions(JsonObject &object, BottleneckConfig &config) {
  constexpr const char *key = "reduction_factor";
  auto read = [&](JsonValue value, const std::string &of) {
    constexpr double least = 1.0 / 64; // a bottleneck is at most so many times as wide as the model
    double number = 0;
    if (!value.number(number) || !(number >= least) || !std::isfinite(number))
      object.fail(key, of + "is " + printable(value.raw(), 64) + ", expected a number, at least 1/64");
    return number;
  };
  JsonValue found = object.find(key);
  if (!found.is(JsonKind::Object)) {
    config.reduction = read(found, "");
    return;
  }
  for (JsonItems items(found); items.next();) {
    std::string layer = items.key.string();
    double number = read(items.value, "of '" + printable(layer) + "' ");
    if (layer == "default")
      config.reduction = number;
    else if (layer.empty() || layer.size() > 6 || layer.find_first_not_of("0123456789") != std::string::npos)
      object.fail(key, "has '" + printable(layer) + "', expected numbers of layers and default");
    else
      config.reductions[std::stoll(layer)] = number;
  }
}

static void readScaling(JsonObject &object, BottleneckConfig &config) {
  JsonValue found = object.find("scaling");
  if (found.is(JsonKind::String)) {
    bool isLearned = found.equals("learned");
    if (!isLearned && !found.equals("channel"))
      object.fail("scaling", "is " + printable(found.raw(), 64) + ", expected a number, learned or channel");
    config.scaling = isLearned ? BottleneckScaling::Learned : BottleneckScaling::Channel;
    return;
  }
  config.factor = object.number("scaling").value_or(1.0);
}

static void readResidual(JsonObject &object, BottleneckWiring &wiring, bool normsBehind) {
  constexpr const char *key = "residual_before_ln";
  if (!object.find(key).is(JsonKind::String)) {
    wiring.residual =
        object.boolean(key).value_or(true) ? BottleneckResidual::BeforeNorm : BottleneckResidual::AfterNorm;
    return;
  }
  if (!object.find(key).equals("post_add"))
    return object.fail(key, "is " + printable(object.find(key).raw(), 64) + ", expected true, false or post_add");
  // The library has no residual to add then, and fails.
  if (!wiring.isParallel && !(wiring.originalBefore && normsBehind))
    return object.fail(key,
                       "is post_add, expected it of a model with norms behind its residuals and original_ln_before");
  wiring.residual = BottleneckResidual::PostAdd;
}

static void readWiring(JsonObject &object, BottleneckWiring &wiring, bool normsBehind) {
  std::string activation = object.string("non_linearity").value_or("");
  for (char &c : activation)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (std::optional<Activation> known = activationNamed(activation))
    wiring.activation = *known;
  else
    object.unsupported("non_linearity", "is '" + printable(activation, 64) + "', which is not supported: expected " +
                                            knownActivations());
  wiring.isParallel = object.boolean("is_parallel").value_or(false);
  wiring.originalBefore = object.boolean("original_ln_before").value_or(false);
  wiring.originalAfter = object.boolean("original_ln_after").value_or(true);
  wiring.normsBefore = object.boolean("ln_before").value_or(false);
  wiring.normsAfter = object.boolean("ln_after").value_or(false);
  wiring.residualBeforeNorm = object.boolean("adapter_residual_before_ln").value_or(false);
  readResidual(object, wiring, normsBehind);
}

static void checkBase(JsonObject &object, const ModelConfig &base) {
  if (std::string type = object.string("model_type").value_or(base.architecture); type != base.architecture)
    object.fail("model_type", "is '" + printable(type, 64) + "', expected " + base.architecture +
                                  ", the model's: the adapter is of another base");
  if (int64_t size = object.integer("hidden_size").value_or(base.hiddenSize); size != base.hiddenSize)
    object.fail("hidden_size", "is " + std::to_string(size) + ", expected " + std::to_string(base.hiddenSize) +
                                   ", the model's: the adapter is of another base");
  if (std::string type = object.string("type").value_or("text_task"); type != "text_task" && type != "text_lang")
    object.unsupported("type",
                       "is '" + printable(type, 64) + "', which is not supported: expected text_task or text_lang");
}

Expected<BottleneckConfig> readBottleneckConfig(ModelFiles &files, const ModelConfig &base, bool normsBehind,
                                                bool hasCross) {
  Expected<JsonFile> json = readConfigFile(files, configName, maxConfigBytes);
  if (!json)
    return json.status();
  JsonObject outer(*json, files.pathOf(configName));
  HEDDLE_RETURN_IF_ERROR(outer.status());
  JsonObject object = outer.object("config");
  BottleneckConfig config;
  if (std::optional<std::string> kind = object.string("architecture"))
    object.unsupported("architecture", "is '" + printable(*kind, 64) +
                                           "', which is not supported: expected null, a bottleneck adapter");
  HEDDLE_RETURN_IF_ERROR(object.status());
  checkBase(outer, base);
  config.name = outer.string("name").value_or("");
  config.behindAttention = object.boolean("mh_adapter").value_or(false);
  config.behindOutput = object.boolean("output_adapter").value_or(false);
  config.behindCross = object.boolean("cross_adapter").value_or(false);
  if (config.behindCross && !hasCross)
    object.fail("cross_adapter", "is true, expected false: the model has no attention to a source");
  if (!config.behindAttention && !config.behindCross && !config.behindOutput)
    object.fail("mh_adapter", "is false, as is output_adapter: expected an adapter behind one of them");
  readWiring(object, config.wiring, normsBehind);
  readReductions(object, config);
  readScaling(object, config);
  for (int64_t layer : object.integers("leave_out"))
    config.leftOut.insert(layer);
  for (const char *key : passedKeys)
    object.pass(key);
  for (const char *key : passedOuterKeys)
    outer.pass(key);
  refuseUnasked(object, json->root.find("config"));
  outer.adopt(object);
  refuseUnasked(outer, json->root);
  HEDDLE_RETURN_IF_ERROR(outer.status());
  return config;
}

} // namespace heddle
