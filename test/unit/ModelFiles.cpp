// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ModelFiles.h"
#include "frontends/read/ReadModel.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace heddle::test {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "heddle-XXXXXX").string();
  root = mkdtemp(&pattern[0]) ? pattern : "";
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(root, ignored);
}

std::string TemporaryFolder::write(const std::string &name, const std::string &bytes) const {
  std::ofstream(path(name), std::ios::binary) << bytes;
  return path(name);
}

std::string zeros(size_t count) {
  return std::string(count, '\0');
}

std::string floats(const std::vector<float> &values) {
  return std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float));
}

std::string refusal(const std::string &path) {
  Expected<Model> model = readModel(path);
  return model ? "" : model.message();
}

void GgufBuilder::set(const std::string &key, uint32_t type, const std::string &value) {
  for (GgufPair &pair : pairs) {
    if (pair.key == key) {
      pair = {key, type, value};
      return;
    }
  }
  pairs.push_back({key, type, value});
}

void GgufBuilder::strings(const std::string &key, const std::vector<std::string> &values) {
  std::string bytes = bytesOf<uint32_t>(8) + bytesOf<uint64_t>(values.size());
  for (const std::string &value : values)
    bytes += bytesOf<uint64_t>(value.size()) + value;
  set(key, 9, bytes);
}

void GgufBuilder::erase(const std::string &key) {
  for (size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i].key == key)
      pairs.erase(pairs.begin() + static_cast<long>(i--));
}

GgufTensor &GgufBuilder::tensor(const std::string &name) {
  for (GgufTensor &tensor : tensors)
    if (tensor.name == name)
      return tensor;
  return tensors.emplace_back(GgufTensor{name, {}, 0, ""});
}

std::string GgufBuilder::bytes() const {
  std::string out = "GGUF" + bytesOf(version);
  out += bytesOf<int64_t>(numTensors < 0 ? static_cast<int64_t>(tensors.size()) : numTensors);
  out += bytesOf<int64_t>(numPairs < 0 ? static_cast<int64_t>(pairs.size()) : numPairs);
  for (const GgufPair &pair : pairs)
    out += bytesOf<uint64_t>(pair.key.size()) + pair.key + bytesOf(pair.type) + pair.value;
  std::string data;
  for (const GgufTensor &tensor : tensors) {
    out += bytesOf<uint64_t>(tensor.name.size()) + tensor.name + bytesOf(static_cast<uint32_t>(tensor.dims.size()));
    for (int64_t dim : tensor.dims)
      out += bytesOf(dim);
    out +=
        bytesOf(tensor.type) + bytesOf<int64_t>(tensor.offset < 0 ? static_cast<int64_t>(data.size()) : tensor.offset);
    data += tensor.data;
    data += zeros((alignment - data.size() % alignment) % alignment);
  }
  out += zeros((alignment - out.size() % alignment) % alignment);
  return out + data;
}

GgufBuilder tinyGguf() {
  GgufBuilder file;
  file.string("general.architecture", "llama");
  for (auto [key, value] : {std::pair<const char *, uint32_t>{"context_length", 64},
                            {"embedding_length", 16},
                            {"block_count", 2},
                            {"feed_forward_length", 24},
                            {"attention.head_count", 4},
                            {"attention.head_count_kv", 2},
                            {"rope.dimension_count", 4},
                            {"vocab_size", 32}})
    file.u32(std::string("llama.") + key, value);
  file.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  file.f32("llama.rope.freq_base", 10000.0f);
  auto add = [&](const std::string &name, std::vector<int64_t> dims) {
    int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
    file.tensors.push_back({name, dims, 0, zeros(static_cast<size_t>(count) * 4)});
  };
  add("token_embd.weight", {16, 32});
  add("output_norm.weight", {16});
  add("output.weight", {16, 32});
  for (const char *layer : {"blk.0.", "blk.1."}) {
    std::string prefix = layer;
    add(prefix + "attn_norm.weight", {16});
    add(prefix + "attn_q.weight", {16, 16});
    add(prefix + "attn_k.weight", {16, 8});
    add(prefix + "attn_v.weight", {16, 8});
    add(prefix + "attn_output.weight", {16, 16});
    add(prefix + "ffn_norm.weight", {16});
    add(prefix + "ffn_gate.weight", {16, 24});
    add(prefix + "ffn_up.weight", {16, 24});
    add(prefix + "ffn_down.weight", {24, 16});
  }
  return file;
}

static size_t bytesPerValue(const std::string &dtype) {
  return dtype == "F64" || dtype == "I64"    ? 8
         : dtype == "F16" || dtype == "BF16" ? 2
         : dtype.compare(0, 2, "F8") == 0    ? 1
                                             : 4;
}

nlohmann::ordered_json safetensorsHeader(const std::vector<SafetensorsTensor> &tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  size_t at = 0;
  for (const SafetensorsTensor &tensor : tensors) {
    size_t bytes = bytesPerValue(tensor.dtype);
    for (int64_t dim : tensor.shape)
      bytes *= static_cast<size_t>(dim);
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  return header;
}

std::string safetensorsFile(const std::string &header, size_t dataBytes) {
  return bytesOf<uint64_t>(header.size()) + header + zeros(dataBytes);
}

std::string safetensorsFile(const std::vector<SafetensorsTensor> &tensors) {
  nlohmann::ordered_json header = safetensorsHeader(tensors);
  size_t bytes = tensors.empty() ? 0 : header[tensors.back().name]["data_offsets"][1].get<size_t>();
  return safetensorsFile(header.dump(), bytes);
}

nlohmann::json tinyConfig() {
  return {{"model_type", "llama"},    {"vocab_size", 32},       {"hidden_size", 16},
          {"intermediate_size", 24},  {"num_hidden_layers", 2}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"hidden_act", "silu"},   {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-5},     {"rope_theta", 10000.0},  {"tie_word_embeddings", false},
          {"bos_token_id", 1},        {"eos_token_id", 2}};
}

std::vector<SafetensorsTensor> tinyTensors() {
  std::vector<SafetensorsTensor> out = {{"lm_head.weight", "F32", {32, 16}},
                                        {"model.embed_tokens.weight", "F32", {32, 16}},
                                        {"model.norm.weight", "F32", {16}}};
  for (const char *layer : {"model.layers.0.", "model.layers.1."}) {
    std::string prefix = layer;
    out.push_back({prefix + "input_layernorm.weight", "F32", {16}});
    out.push_back({prefix + "self_attn.q_proj.weight", "F32", {16, 16}});
    out.push_back({prefix + "self_attn.k_proj.weight", "F32", {8, 16}});
    out.push_back({prefix + "self_attn.v_proj.weight", "F32", {8, 16}});
    out.push_back({prefix + "self_attn.o_proj.weight", "F32", {16, 16}});
    out.push_back({prefix + "post_attention_layernorm.weight", "F32", {16}});
    out.push_back({prefix + "mlp.gate_proj.weight", "F32", {24, 16}});
    out.push_back({prefix + "mlp.up_proj.weight", "F32", {24, 16}});
    out.push_back({prefix + "mlp.down_proj.weight", "F32", {16, 24}});
  }
  return out;
}

void writeHuggingFace(const TemporaryFolder &folder, const nlohmann::json &config,
                      const std::vector<SafetensorsTensor> &tensors) {
  folder.write("config.json", config.dump());
  folder.write("model.safetensors", safetensorsFile(tensors));
}

} // namespace heddle::test
