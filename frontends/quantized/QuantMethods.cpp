// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which method quantization_config names, and that each of its keys is known to it.
#include "frontends/quantized/QuantMethods.h"

#include "frontends/huggingface/Config.h"

namespace heddle {

namespace {

struct QuantMethod {
  const char *name; // quant_method
  RestoreWeights (*read)(JsonObject &options);
};
constexpr QuantMethod methods[] = {
    {"awq", readAwq},
    {"bitsandbytes", readBitsAndBytes},
    {"compressed-tensors", readCompressedTensors},
    {"fp8", readFp8},
    {"gptq", readGptq},
    {"modelopt", readModelOpt},
    {"mxfp4", readMxfp4},
};

const QuantMethod *findMethod(std::string_view name) {
  for (const QuantMethod &method : methods)
    if (name == method.name)
      return &method;
  return nullptr;
}

std::string knownMethods() {
  std::string known;
  for (const QuantMethod &method : methods)
    known += std::string(known.empty() ? "" : ", ") + method.name;
  return known;
}

constexpr const char *optionsKey = "quantization_config", *modelOptFile = "hf_quant_config.json";

// What an option does is not known: it may change what the codes stand for.
void refuseUnasked(JsonObject &options, JsonValue stored, const std::string &method) {
  for (JsonItems items(stored); items.next();)
    if (std::string key = items.key.string(); !options.wasAsked(key.c_str()))
      options.unsupported(key.c_str(), "is " + printable(items.value.raw(), 64) + ", a key that is not known for " +
                                           method + "; expected a config without it");
}

constexpr const char *quantizerKeys[] = {
    "act_group_aware",
    "adapter",
    "backend",
    "batch_size",
    "block_name_to_quantize",
    "cache_block_outputs",
    "damp_auto_increment",
    "damp_percent",
    "dataset",
    "desc_act",
    "device",
    "disable_exllama",
    "do_fuse",
    "exllama_config",
    "fuse_max_seq_len",
    "gptaq",
    "gptaq_alpha",
    "hyb_act",
    "lm_head",
    "max_input_length",
    "meta",
    "model_file_base_name",
    "model_name_or_path",
    "model_seqlen",
    "module_name_preceding_first_block",
    "modules_in_block_to_quantize",
    "modules_to_fuse",
    "modules_to_not_convert",
    "mse",
    "offload_to_disk",
    "offload_to_disk_path",
    "pad_token_id",
    "static_groups",
    "sym",
    "tokenizer",
    "true_sequential",
    "use_cuda_fp16",
    "use_exllama",
    "v2",
    "vram_strategy",
};

} // namespace

void passQuantizerKeys(JsonObject &options) {
  for (const char *key : quantizerKeys)
    options.pass(key);
}

// `name`: of the method whose options these are; "": they say it.
static Status restoreBy(JsonObject options, JsonValue stored, std::string name, Model &model) {
  HEDDLE_RETURN_IF_ERROR(options.status());
  if (!stored)
    return Status();
  if (name.empty())
    name = options.string("quant_method").value_or("");
  HEDDLE_RETURN_IF_ERROR(options.status());
  const QuantMethod *method = findMethod(name);
  if (!method) {
    options.unsupported("quant_method",
                        (name.empty() ? "is missing" : "is '" + printable(name, 64) + "', which is not supported") +
                            "; known: " + knownMethods());
    return options.status();
  }
  RestoreWeights restore = method->read(options);
  refuseUnasked(options, stored, name);
  HEDDLE_RETURN_IF_ERROR(options.status());
  model.quantMethod = name;
  WeightRestorer restorer(model);
  HEDDLE_RETURN_IF_ERROR(restore(restorer));
  return restorer.finish();
}

Status restoreQuantizedWeights(ModelFiles &files, Model &model) {
  Expected<JsonFile> json = readConfigFile(files, "config.json", maxConfigBytes);
  if (!json)
    return json.status();
  JsonObject config(*json, files.pathOf("config.json"));
  if (!config.has(optionsKey)) // of the text model alone
    config = config.object("text_config");
  if (config.has(optionsKey) || !files.has(modelOptFile))
    return restoreBy(config.object(optionsKey), config.find(optionsKey), "", model);
  Expected<JsonFile> beside = readConfigFile(files, modelOptFile, maxConfigBytes);
  if (!beside)
    return beside.status();
  JsonObject whole(*beside, files.pathOf(modelOptFile));
  return restoreBy(whole.object("quantization"), whole.find("quantization"), "modelopt", model);
}

} // namespace heddle
