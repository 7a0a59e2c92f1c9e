// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/Inspect.h"

#include "frontends/CompanionFiles.h"
#include "frontends/ModelConfig.h"
#include "bytes/Text.h"
#include "frontends/onnx/OnnxModel.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

namespace heddle {

namespace {

using Json = nlohmann::ordered_json;

const char *activationName(Activation activation) {
  static const char *const names[] = {"silu", "gelu", "gelu_pytorch_tanh", "relu", "quick_gelu", "tanh"};
  return names[static_cast<size_t>(activation)];
}

const char *scalingName(RopeScalingKind kind) {
  static const char *const names[] = {"default", "linear", "dynamic", "llama3", "yarn", "longrope"};
  return names[static_cast<size_t>(kind)];
}

Json describeRope(const RopeConfig &rope) {
  Json out = {{"rope_theta", rope.theta},
              {"rotary_dim", rope.rotaryDim},
              {"interleaved", rope.interleaved},
              {"rope_type", scalingName(rope.scaling)}};
  if (rope.scaling != RopeScalingKind::None)
    out["factor"] = rope.factor;
  if (rope.originalContext)
    out["original_max_position_embeddings"] = rope.originalContext;
  return out;
}

// Under Hugging Face's names, whichever file the config came from.
Json describeConfig(const ModelConfig &config) {
  Json out = {{"model_type", config.architecture},
              {"source", config.source},
              {"name", config.name},
              {"vocab_size", config.vocabSize},
              {"hidden_size", config.hiddenSize},
              {"intermediate_size", config.intermediateSize},
              {"num_hidden_layers", config.numHiddenLayers},
              {"num_attention_heads", config.numHeads},
              {"num_key_value_heads", config.numKvHeads},
              {"head_dim", config.headDim},
              {"max_position_embeddings", config.contextLength},
              {"norm_eps", config.normEps},
              {"hidden_act", activationName(config.activation)},
              {"tie_word_embeddings", config.tieWordEmbeddings},
              {"attention_bias", config.attentionBias},
              {"mlp_bias", config.mlpBias}};
  if (config.attentionSoftcap != 0.0)
    out["attn_logit_softcapping"] = config.attentionSoftcap;
  if (config.finalSoftcap != 0.0)
    out["final_logit_softcapping"] = config.finalSoftcap;
  if (config.moe.numExperts > 0) {
    out["num_experts"] = config.moe.numExperts;
    out["num_experts_per_tok"] = config.moe.expertsPerToken;
    out["moe_intermediate_size"] = config.moe.intermediateSize;
  }
  out["layer_windows"] = config.layerWindow;
  out["rope"] = Json::array();
  for (const RopeConfig &rope : config.ropes)
    out["rope"].push_back(describeRope(rope));
  if (config.bosId)
    out["bos_token_id"] = *config.bosId;
  out["eos_token_id"] = config.eosIds;
  return out;
}

// "float (1, sequence)"
std::string typeText(const OnnxValueInfo &value) {
  std::string shape;
  for (const OnnxDim &dim : value.dims)
    shape += (shape.empty() ? "" : ", ") + (dim.value >= 0      ? std::to_string(dim.value)
                                            : dim.param.empty() ? "?"
                                                                : printable(dim.param, 64));
  return onnxTypeName(value.type) + " (" + (value.hasShape ? shape : "...") + ")";
}

// What a graph says of itself, and the files beside it that a model that generates is compiled with.
Json describeGraph(const OnnxModel &onnx) {
  Json out = {{"source", "onnx"},          {"name", onnx.graph.name},
              {"producer", onnx.producer}, {"nodes", onnx.graph.nodes.size()},
              {"opsets", Json::object()},  {"inputs", Json::object()},
              {"outputs", Json::object()}, {"beside", Json::array()}};
  for (const auto &[domain, opset] : onnx.opsets)
    out["opsets"][domain.empty() ? "ai.onnx" : domain] = opset;
  for (const OnnxValueInfo &input : onnx.graph.inputs)
    out["inputs"][input.name] = typeText(input);
  for (const OnnxValueInfo &output : onnx.graph.outputs)
    out["outputs"][output.name] = typeText(output);
  size_t slash = onnx.path.rfind('/');
  for (const std::string &name : companionFiles(slash == std::string::npos ? "" : onnx.path.substr(0, slash)))
    out["beside"].push_back(name);
  return out;
}

double parameterCount(const TensorInfo &tensor) {
  double count = 1.0;
  for (int64_t dim : tensor.shape)
    count *= static_cast<double>(dim);
  return count;
}

Json describeModel(const Model &model) {
  Json tensors = Json::array();
  uint64_t bytes = 0;
  double parameters = 0;
  for (const auto &[name, tensor] : model.checkpoint.tensors) {
    tensors.push_back({{"name", printable(name, 1024)},
                       {"type", tensorTypeInfo(tensor.type).name},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes}});
    bytes += tensor.bytes;
    parameters += parameterCount(tensor);
  }
  return {{"config", model.onnx ? describeGraph(*model.onnx) : describeConfig(model.config)},
          {"tensors", std::move(tensors)},
          {"total",
           {{"tensors", model.checkpoint.tensors.size()},
            {"parameters", parameters},
            {"bytes", bytes},
            {"files", model.checkpoint.files.size()}}}};
}

// Never fails, whatever bytes a name from the file holds.
std::string asciiText(const Json &value, int indent = -1) {
  return value.dump(indent, ' ', true, Json::error_handler_t::replace);
}

void printText(const Json &model) {
  for (const auto &[key, value] : model["config"].items())
    if (key != "layer_windows" && key != "rope")
      printf("%-26s %s\n", key.c_str(), asciiText(value).c_str());
  if (model["config"].contains("rope"))
    for (const Json &rope : model["config"]["rope"])
      printf("%-26s %s\n", "rope", rope.dump().c_str());
  printf("\n");
  for (const Json &tensor : model["tensors"])
    printf("%-60s %-7s %-24s %14llu\n", tensor["name"].get_ref<const std::string &>().c_str(),
           tensor["type"].get_ref<const std::string &>().c_str(), tensor["shape"].dump().c_str(),
           static_cast<unsigned long long>(tensor["bytes"].get<uint64_t>()));
  const Json &total = model["total"];
  printf("\n%llu tensors, %.0f parameters, %llu bytes in %llu files\n",
         static_cast<unsigned long long>(total["tensors"].get<uint64_t>()), total["parameters"].get<double>(),
         static_cast<unsigned long long>(total["bytes"].get<uint64_t>()),
         static_cast<unsigned long long>(total["files"].get<uint64_t>()));
}

} // namespace

int inspectModel(const std::string &path, bool json) {
  Expected<Model> model = readModel(path);
  if (!model) {
    fprintf(stderr, "heddle: error: %s\n", model.message().c_str());
    return 2;
  }
  Json description = describeModel(*model);
  if (json)
    printf("%s\n", asciiText(description, 2).c_str());
  else
    printText(description);
  return 0;
}

} // namespace heddle
