// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/ModelConfig.h"
#include "frontends/Size.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/HuggingFace.h"

#include <cmath>
#include <cstring>
#include <sys/stat.h>

namespace heddle {

// `value` rounded to what a tensor of `type` can hold, as the reference does with the embedding's scale.
static double roundTo(TensorType type, double value) {
  float number = static_cast<float>(value);
  if (type == TensorType::BF16) {
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000;
    std::memcpy(&number, &bits, sizeof(bits));
  } else if (type == TensorType::F16) {
    int exponent;
    std::frexp(number, &exponent); // 11 significant bits
    number = std::ldexp(std::nearbyint(std::ldexp(number, 11 - exponent)), exponent - 11);
  }
  return number;
}

void setEmbeddingScale(Model &model) {
  const TensorInfo *embedding = model.checkpoint.find("model.embed_tokens.weight");
  if (model.config.architecture.compare(0, 5, "gemma") == 0 && embedding)
    model.config.embeddingScale = roundTo(embedding->type, std::sqrt(static_cast<double>(model.config.hiddenSize)));
}

// ONNX is a protobuf whose first field is ir_version, a small number, followed by another field of the model.
static bool looksLikeOnnx(const MappedFile &file) {
  const uint8_t *bytes = file.data();
  return file.size() >= 4 && bytes[0] == 0x08 && bytes[1] > 0 && bytes[1] < 32 && (bytes[2] & 7) == 2;
}

Expected<Model> readModel(const std::string &path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0)
    return errorIn(path, "no such file or directory");
  if (S_ISDIR(status.st_mode))
    return readHuggingFace(path);
  Expected<std::shared_ptr<MappedFile>> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  if (looksLikeOnnx(**file))
    return errorIn(path, "is an ONNX graph, which has no config: import it as a graph");
  constexpr std::string_view suffix = ".safetensors";
  if (path.size() > suffix.size() && path.compare(path.size() - suffix.size(), suffix.size(), suffix) == 0)
    return errorIn(path, "is a file of weights; give the directory that also holds its config.json");
  return readGguf(path);
}

} // namespace heddle
