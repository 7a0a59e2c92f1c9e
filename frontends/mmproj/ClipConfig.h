// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The metadata of a clip file as the JSON of a folder, value by value: what reads a folder then reads this, and its messages name the file's own keys.
#ifndef HEDDLE_FRONTENDS_MMPROJ_CLIPCONFIG_H
#define HEDDLE_FRONTENDS_MMPROJ_CLIPCONFIG_H

#include "frontends/Json.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/mmproj/Projector.h"

#include <array>

namespace heddle {

class ClipConfig {
public:
  ClipConfig(const GgufFile &file, const Projector &projector) : keys(file, "clip."), projector(projector) {}

  // Reads all of it; `imageToken` is the id of the projector's token.
  Status read(int64_t imageToken);
  // The config around vision_config, which holds it, and that of the processor.
  Expected<JsonFile> config() const;
  Expected<JsonFile> processor() const;

  // For the functions of rows.
  bool has(const char *key) const { return keys.has(key); }
  int64_t integer(const char *key, int64_t fallback) { return keys.integer(key, fallback); }
  std::string string(const char *key, const char *fallback) { return keys.string(key, fallback); }
  // Numbers of a tensor's dimension, outermost first; 0 where there is none.
  int64_t dimension(const char *tensor, size_t axis) const;
  bool holds(const char *tensor) const { return keys.source().tensors().find(tensor) != nullptr; }
  // Integers, or those of true values, of an array.
  std::vector<int64_t> integers(const char *key);
  std::vector<int64_t> setBits(const char *key);
  // A member, as JSON; `key` of the file is what it was made of, null: nothing of one key.
  void add(ClipPart part, const std::string &name, const std::string &json, const char *key = nullptr);
  // A number of the file, where it has it.
  void addNumber(ClipPart part, const std::string &name, const char *key);
  void fail(const char *key, const std::string &what) { keys.fail(keys.full(key) + " " + what); }
  void unsupported(const char *key, const std::string &what) { keys.unsupported(keys.full(key) + " " + what); }

  // Of images of one size, once the common keys are read.
  int64_t imageSize = 0, patchSize = 0;

private:
  void readCommon();
  void readNorm();
  void readColors(const char *key, const char *name);
  void addAll(ClipPart part, const char *members);
  // That the member was made of this key.
  void note(ClipPart part, const std::string &name, const char *key);
  void refuseUnread();
  std::string membersOf(ClipPart part) const;

  GgufKeys keys;
  const Projector &projector;
  std::array<std::string, 3> members; // of each part
  std::array<JsonOrigins, 3> origins;
};

// "[1, 2]"
std::string jsonIntegers(const std::vector<int64_t> &numbers);

} // namespace heddle

#endif
