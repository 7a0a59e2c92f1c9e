// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GGUF metadata and tensors in Hugging Face's terms.
#ifndef HEDDLE_FRONTENDS_GGUF_GGUFMODEL_H
#define HEDDLE_FRONTENDS_GGUF_GGUFMODEL_H

#include "frontends/Architectures.h"
#include "frontends/gguf/Gguf.h"

namespace heddle {

Expected<Model> readGguf(const std::string &path);

// The config in the file's metadata. Sizes are checked, the rest is not.
Expected<ModelConfig> readGgufConfig(const GgufFile &file);
// config.ropes and config.layerRope, after layerWindow. `source` collects the first failure.
class GgufKeys;
void readGgufRopes(GgufKeys &keys, const GgufFile &file, ModelConfig &config);

// The keys of deepseek2: sizes of heads and latents; its experts, once sizes are bounded; the scale of scores, after
// readGgufRopes.
void readGgufLatentSizes(GgufKeys &keys, const GgufFile &file, ModelConfig &config);
void readGgufDeepSeekExperts(GgufKeys &keys, const GgufFile &file, ModelConfig &config);
void setGgufLatentScale(ModelConfig &config);

// Typed access to the keys under "ARCHITECTURE.". The first failure is kept, later reads give fallbacks: ask status()
// once.
class GgufKeys {
public:
  GgufKeys(const GgufFile &file, std::string prefix) : file(file), prefix(std::move(prefix)) {}
  bool has(const char *key) const { return file.contains(prefix + key); }
  int64_t integer(const char *key);                   // required
  int64_t integer(const char *key, int64_t fallback); // optional
  double number(const char *key, double fallback);
  bool boolean(const char *key, bool fallback);
  std::string string(const char *key, const char *fallback);
  void fail(const std::string &what);
  const Status &status() const { return error; }
  std::string full(const char *key) const { return prefix + key; }

private:
  template <typename T, typename U> T keep(const Expected<U> &value, T fallback);

  const GgufFile &file;
  std::string prefix;
  Status error;
};

} // namespace heddle

#endif
