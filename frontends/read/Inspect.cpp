// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values are written as JSON in ASCII, in both forms of the output: names from a file can hold anything.
#include "frontends/read/Inspect.h"

#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "frontends/CompanionFiles.h"
#include "frontends/onnx/OnnxModel.h"
#include "frontends/read/ReadModel.h"

#include <cstdio>

namespace heddle {

namespace {

// Names and values, which are JSON, in the order of the output.
class Fields {
public:
  void addJson(std::string_view key, std::string json) { all.emplace_back(key, std::move(json)); }
  void add(std::string_view key, const std::string &text) { addJson(key, jsonString(text, true)); }
  void add(std::string_view key, const char *text) { addJson(key, jsonString(text, true)); }
  void add(std::string_view key, int64_t number) { addJson(key, std::to_string(number)); }
  void add(std::string_view key, uint64_t number) { addJson(key, std::to_string(number)); }
  void add(std::string_view key, double number) { addJson(key, jsonNumber(number)); }
  void add(std::string_view key, bool flag) { addJson(key, flag ? "true" : "false"); }
  void add(std::string_view key, const std::vector<int64_t> &numbers) {
    std::vector<std::string> texts;
    texts.reserve(numbers.size());
    for (int64_t number : numbers)
      texts.push_back(std::to_string(number));
    addJson(key, jsonList(texts));
  }
  // `separator` stands between the members.
  std::string object(const char *separator = ", ") const {
    std::string out;
    for (const auto &[key, json] : all)
      out += (out.empty() ? "" : separator) + jsonString(key, true) + ": " + json;
    return "{" + out + "}";
  }
  const std::vector<std::pair<std::string, std::string>> &members() const { return all; }
  static std::string jsonList(const std::vector<std::string> &values, const char *separator = ", ") {
    std::string out;
    for (const std::string &value : values)
      out += (out.empty() ? "" : separator) + value;
    return "[" + out + "]";
  }

private:
  std::vector<std::pair<std::string, std::string>> all;
};

const char *activationName(Activation activation) {
  static const char *const names[] = {"silu", "gelu", "gelu_pytorch_tanh", "relu", "quick_gelu", "tanh", "relu2"};
  return names[static_cast<size_t>(activation)];
}

const char *scalingName(RopeScalingKind kind) {
  static const char *const names[] = {"default", "linear", "dynamic", "llama3", "yarn", "longrope"};
  return names[static_cast<size_t>(kind)];
}

std::string describeRope(const RopeConfig &rope) {
  Fields out;
  out.add("rope_theta", rope.theta);
  out.add("rotary_dim", rope.rotaryDim);
  out.add("interleaved", rope.interleaved);
  out.add("rope_type", scalingName(rope.scaling));
  if (rope.scaling != RopeScalingKind::None)
    out.add("factor", rope.factor);
  if (rope.originalContext)
    out.add("original_max_position_embeddings", rope.originalContext);
  return out.object();
}

// Under Hugging Face's names, whichever file the config came from.
Fields describeConfig(const ModelConfig &config) {
  Fields out;
  out.add("model_type", config.architecture);
  out.add("source", config.source);
  out.add("name", config.name);
  out.add("license", config.license);
  out.add("vocab_size", config.vocabSize);
  out.add("hidden_size", config.hiddenSize);
  out.add("intermediate_size", config.intermediateSize);
  out.add("num_hidden_layers", config.numHiddenLayers);
  out.add("num_attention_heads", config.numHeads);
  out.add("num_key_value_heads", config.numKvHeads);
  out.add("head_dim", config.headDim);
  if (!config.layerShapes.empty()) {
    std::vector<int64_t> kvHeads, headDims, widths;
    for (const LayerShape &shape : config.layerShapes) {
      kvHeads.push_back(shape.numKvHeads);
      headDims.push_back(shape.headDim);
      widths.push_back(shape.intermediateSize);
    }
    out.add("layer_kv_heads", kvHeads);
    out.add("layer_head_dims", headDims);
    out.add("layer_intermediate_sizes", widths);
  }
  out.add("max_position_embeddings", config.contextLength);
  out.add("norm_eps", config.normEps);
  out.add("hidden_act", activationName(config.activation));
  out.add("tie_word_embeddings", config.tieWordEmbeddings);
  out.add("attention_bias", config.attentionBias);
  out.add("mlp_bias", config.mlpBias);
  if (config.attentionSoftcap != 0.0)
    out.add("attn_logit_softcapping", config.attentionSoftcap);
  if (config.finalSoftcap != 0.0)
    out.add("final_logit_softcapping", config.finalSoftcap);
  if (config.moe.numExperts > 0) {
    out.add("num_experts", config.moe.numExperts);
    out.add("num_experts_per_tok", config.moe.expertsPerToken);
    out.add("moe_intermediate_size", config.moe.intermediateSize);
  }
  out.add(config.windowsAreChunks ? "layer_chunks" : "layer_windows", config.layerWindow);
  if (config.hasStates())
    out.add("layer_states", std::vector<int64_t>(config.recurrent.layers.begin(), config.recurrent.layers.end()));
  std::vector<std::string> ropes;
  ropes.reserve(config.ropes.size());
  for (const RopeConfig &rope : config.ropes)
    ropes.push_back(describeRope(rope));
  out.addJson("rope", Fields::jsonList(ropes));
  if (config.bosId)
    out.add("bos_token_id", *config.bosId);
  out.add("eos_token_id", config.eosIds);
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
Fields describeGraph(const OnnxModel &onnx) {
  Fields out, opsets, inputs, outputs;
  for (const auto &[domain, opset] : onnx.opsets)
    opsets.add(domain.empty() ? "ai.onnx" : domain, static_cast<int64_t>(opset));
  for (const OnnxValueInfo &input : onnx.graph.inputs)
    inputs.add(input.name, typeText(input));
  for (const OnnxValueInfo &output : onnx.graph.outputs)
    outputs.add(output.name, typeText(output));
  size_t slash = onnx.path.rfind('/');
  std::vector<std::string> beside;
  for (const std::string &name : companionFiles(slash == std::string::npos ? "" : onnx.path.substr(0, slash)))
    beside.push_back(jsonString(name, true));
  out.add("source", "onnx");
  out.add("name", onnx.graph.name);
  out.add("producer", onnx.producer);
  out.add("nodes", static_cast<uint64_t>(onnx.graph.nodes.size()));
  out.addJson("opsets", opsets.object());
  out.addJson("inputs", inputs.object());
  out.addJson("outputs", outputs.object());
  out.addJson("beside", Fields::jsonList(beside));
  return out;
}

double parameterCount(const TensorInfo &tensor) {
  double count = 1.0;
  for (int64_t dim : tensor.shape)
    count *= static_cast<double>(dim);
  return count;
}

struct Totals {
  double parameters = 0;
  uint64_t bytes = 0;
};

Totals totalsOf(const Checkpoint &checkpoint) {
  Totals totals;
  for (const auto &[name, tensor] : checkpoint.tensors) {
    totals.bytes += tensor.bytes;
    totals.parameters += parameterCount(tensor);
  }
  return totals;
}

Fields describe(const Model &model) {
  return model.onnx ? describeGraph(*model.onnx) : describeConfig(model.config);
}

void printJson(const Model &model) {
  std::vector<std::string> tensors;
  for (const auto &[name, tensor] : model.checkpoint.tensors) {
    Fields fields;
    fields.add("name", printable(name, 1024));
    fields.add("type", tensorTypeInfo(tensor.type).name);
    fields.add("shape", tensor.shape);
    fields.add("bytes", tensor.bytes);
    tensors.push_back(fields.object());
  }
  Totals totals = totalsOf(model.checkpoint);
  Fields total, out;
  total.add("tensors", static_cast<uint64_t>(tensors.size()));
  total.add("parameters", totals.parameters);
  total.add("bytes", totals.bytes);
  total.add("files", static_cast<uint64_t>(model.checkpoint.files.size()));
  out.add("schema", schema::modelInspection);
  out.addJson("config", describe(model).object(",\n    "));
  out.addJson("tensors", Fields::jsonList(tensors, ",\n    "));
  out.addJson("total", total.object());
  printf("%s\n", out.object(",\n  ").c_str());
}

void printText(const Model &model) {
  Fields config = describe(model);
  for (const auto &[key, json] : config.members())
    if (key.substr(0, 6) != "layer_" && key != "layer_chunks" && key != "rope")
      printf("%-26s %s\n", key.c_str(), json.c_str());
  for (const RopeConfig &rope : model.config.ropes)
    printf("%-26s %s\n", "rope", describeRope(rope).c_str());
  printf("\n");
  for (const auto &[name, tensor] : model.checkpoint.tensors)
    printf("%-60s %-7s %-24s %14llu\n", printable(name, 1024).c_str(), tensorTypeInfo(tensor.type).name,
           shapeText(tensor.shape).c_str(), static_cast<unsigned long long>(tensor.bytes));
  Totals totals = totalsOf(model.checkpoint);
  printf("\n%zu tensors, %.0f parameters, %llu bytes in %zu files\n", model.checkpoint.tensors.size(),
         totals.parameters, static_cast<unsigned long long>(totals.bytes), model.checkpoint.files.size());
}

} // namespace

int inspectModel(const std::string &path, bool json) {
  Expected<Model> model = readModel(path);
  if (!model) {
    fprintf(stderr, "heddle: error: %s\n", model.message().c_str());
    return 2;
  }
  if (json)
    printJson(*model);
  else
    printText(*model);
  return 0;
}

} // namespace heddle
