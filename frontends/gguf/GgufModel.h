// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GGUF metadata and tensors in Hugging Face's terms.
#ifndef HEDDLE_FRONTENDS_GGUF_GGUFMODEL_H
#define HEDDLE_FRONTENDS_GGUF_GGUFMODEL_H

#include "frontends/Family.h"
#include "frontends/gguf/Gguf.h"

#include <set>

namespace heddle {

// general.architecture of files that hold what sees images, or hears, for a decoder in another file.
constexpr std::string_view clipArchitecture = "clip";

// A model of one of `families`.
Expected<Model> readGguf(ModelFiles &files, const FamilyList &families, DecoderUse use);

// The config in the file's metadata. Sizes are checked, the rest is not. A decoder embeds texts where `use` says it, or where the file says how
// tokens are pooled.
Expected<ModelConfig> readGgufConfig(const GgufFile &file, const FamilyList &families, DecoderUse use);
// Converters may write some tensors side by side, in one: the name of that where `name` is such a part, else "".
std::string wholeName(const std::string &name);
// Puts blocks of a type that is computed with in place of ggml's NVFP4 (TensorType::E2M1_F16).
Status convertNvfp4(const GgufFile &file, Model &model);
// config.ropes and config.layerRope, after layerWindow.
void readGgufRopes(GgufKeys &keys, ModelConfig &config);

// Typed access to the keys under "ARCHITECTURE.". The first failure is kept, later reads give fallbacks: ask status()
// once.
class GgufKeys {
public:
  GgufKeys(const GgufFile &file, std::string prefix) : file(file), prefix(std::move(prefix)) {}
  const GgufFile &source() const { return file; }
  bool has(const char *key) const { return file.contains(full(key)); }
  int64_t integer(const char *key);                   // required
  int64_t integer(const char *key, int64_t fallback); // optional
  double number(const char *key, double fallback);
  bool boolean(const char *key, bool fallback);
  std::string string(const char *key, const char *fallback);
  void fail(const std::string &what);
  void unsupported(const std::string &what);
  void adopt(const Status &status);
  const Status &status() const { return error; }
  std::string full(const char *key) const {
    asked.insert(key);
    return prefix + key;
  }
  bool wasAsked(const char *key) const { return asked.count(key); }

private:
  template <typename T, typename U> T keep(const Expected<U> &value, T fallback);

  const GgufFile &file;
  std::string prefix;
  mutable std::set<std::string> asked;
  Status error;
};

} // namespace heddle

#endif
