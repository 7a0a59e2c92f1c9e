// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/peft/Adapter.h"

#include "frontends/huggingface/Safetensors.h"

#include <string_view>

namespace heddle {

namespace {

constexpr const char *weightsName = "adapter_model.safetensors";
constexpr std::string_view prefix = "base_model.model.";
constexpr const char *promptName = "prompt_embeddings";

// What the end of a tensor's name says of it, behind the module's.
struct TensorRole {
  std::string_view ending;
  const TensorInfo *AdaptedModule::*member;
  bool isEmbedding = false;
};
// The longest first: others end as they do.
constexpr TensorRole roles[] = {
    {".lora_embedding_A", &AdaptedModule::a, true},
    {".lora_embedding_B", &AdaptedModule::b, true},
    {".lora_A.weight", &AdaptedModule::a},
    {".lora_B.weight", &AdaptedModule::b},
    {".lora_magnitude_vector.weight", &AdaptedModule::magnitude},
    {".lora_magnitude_vector", &AdaptedModule::magnitude},
    {".ia3_l", &AdaptedModule::scales},
    {".base_layer.weight", &AdaptedModule::base},
    {".base_layer.bias", &AdaptedModule::bias},
    {".weight", &AdaptedModule::weight},
    {".bias", &AdaptedModule::bias},
};

bool endsWith(std::string_view text, std::string_view ending) {
  return text.size() > ending.size() && text.substr(text.size() - ending.size()) == ending;
}

Status takeTensor(Adapter &adapter, const std::string &name, const TensorInfo &tensor) {
  std::string_view rest = name;
  auto refused = [&](const std::string &why) {
    return errorIn(adapter.file, "tensor '" + printable(name) + "' " + why).ofTensor(name);
  };
  if (hasVirtualTokens(adapter.config.kind)) {
    if (name != promptName)
      return refused("is no part of an adapter of virtual tokens: expected " + std::string(promptName));
    adapter.prompt = &tensor;
  } else if (rest.substr(0, prefix.size()) != prefix) {
    return refused("has an unknown name: expected one that begins with '" + std::string(prefix) + "'");
  }
  if (tensor.type != TensorType::F32 && tensor.type != TensorType::F16 && tensor.type != TensorType::BF16)
    return refused(std::string("is of type ") + tensorTypeInfo(tensor.type).name + ", expected f32, f16 or bf16");
  if (adapter.prompt)
    return Status();
  rest.remove_prefix(prefix.size());
  for (const TensorRole &role : roles) {
    if (!endsWith(rest, role.ending))
      continue;
    std::string_view module = rest.substr(0, rest.size() - role.ending.size());
    // ".lora_B.bias", ".lora_A.default.weight": parts of an adapter whose meaning is not known here.
    if (module.find(".lora_") != std::string_view::npos || module.find(".ia3_") != std::string_view::npos)
      break;
    AdaptedModule &adapted = adapter.modules[std::string(module)];
    if (adapted.*role.member)
      return refused("is there under another name, too");
    adapted.*role.member = &tensor;
    adapted.isEmbedding |= role.isEmbedding;
    return Status();
  }
  return refused("is no part of an adapter that is known: expected lora_A, lora_B, lora_embedding_A, lora_embedding_B, "
                 "lora_magnitude_vector, ia3_l, weight or bias of a module");
}

Status checkModule(const Adapter &adapter, const std::string &name, const AdaptedModule &module) {
  auto refused = [&](const std::string &why) {
    return errorIn(adapter.file, "module '" + printable(name) + "' " + why);
  };
  if (module.scales && adapter.config.kind != AdapterKind::IA3)
    return refused("has ia3_l, but peft_type is not IA3");
  if ((module.a || module.b || module.magnitude) && adapter.config.kind != AdapterKind::LoRA)
    return refused("has tensors of LoRA, but peft_type is not LORA");
  if (module.weight && module.scales)
    return refused("has a weight of its own and scales of the base's");
  if (!module.a != !module.b)
    return refused(module.a ? "has lora_A without lora_B" : "has lora_B without lora_A");
  if (module.weight && (module.a || module.base))
    return refused("has a weight of its own and a change of the base's");
  if (!module.a && module.magnitude)
    return refused("has lora_magnitude_vector without lora_A");
  if (!module.a)
    return Status();
  if (adapter.config.normalizesRows != (module.magnitude != nullptr))
    return refused(module.magnitude ? "has lora_magnitude_vector, but use_dora is false"
                                    : "has no lora_magnitude_vector, but use_dora is true");
  if (module.magnitude && module.isEmbedding)
    return refused("is an embedding with use_dora, which is not supported").as(StatusCode::Unsupported);
  if (module.a->shape.size() != 2 || module.b->shape.size() != 2 || module.a->shape[0] != module.b->shape[1] ||
      module.a->shape[0] < 1)
    return refused("has lora_A of shape " + shapeText(module.a->shape) + " and lora_B of shape " +
                   shapeText(module.b->shape) + ", expected (r, in) and (out, r)");
  if (double rank = adapter.config.rankOf(name); rank != double(module.a->shape[0]))
    return refused("has rank " + std::to_string(module.a->shape[0]) + ", adapter_config.json says " +
                   format("%g", rank));
  return Status();
}

} // namespace

Expected<Adapter> readAdapter(ModelFiles &files) {
  if (!files.isFolder())
    return errorIn(files.model(), files.isThere() ? "is no folder: expected one with adapter_config.json"
                                                  : "no such file or directory")
        .as(StatusCode::Unreadable);
  for (const char *name : {"adapter_config.json", weightsName})
    if (!files.has(name))
      return errorIn(files.model(), std::string("holds no ") + name + ": expected an adapter that peft has saved");
  Adapter adapter;
  adapter.file = files.pathOf(weightsName);
  Expected<AdapterConfig> config = readAdapterConfig(files);
  if (!config)
    return config.status();
  adapter.config = std::move(*config);
  Expected<SharedFile> file = files.open(weightsName);
  if (!file)
    return file.status();
  HEDDLE_RETURN_IF_ERROR(readSafetensors(*file, adapter.tensors));
  for (const auto &[name, tensor] : adapter.tensors.tensors)
    HEDDLE_RETURN_IF_ERROR(takeTensor(adapter, name, tensor));
  if (adapter.modules.empty() && !adapter.prompt)
    return errorIn(adapter.file, "holds no tensor");
  if (int64_t tokens = adapter.config.numVirtualTokens;
      adapter.prompt && (adapter.prompt->shape.size() != 2 || adapter.prompt->shape[0] != tokens))
    return errorIn(adapter.file, "tensor '" + std::string(promptName) + "' has shape " +
                                     shapeText(adapter.prompt->shape) + ", expected (" + std::to_string(tokens) +
                                     ", …), as num_virtual_tokens says")
        .ofTensor(promptName);
  for (const auto &[name, module] : adapter.modules)
    HEDDLE_RETURN_IF_ERROR(checkModule(adapter, name, module));
  return adapter;
}

} // namespace heddle
