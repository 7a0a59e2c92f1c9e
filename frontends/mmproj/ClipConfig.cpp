// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/mmproj/ClipConfig.h"

#include "bytes/Json.h"
#include "bytes/Status.h"

#include <algorithm>
#include <cmath>

namespace heddle {

namespace {

constexpr ClipKey commonKeys[] = {
    {"vision.embedding_length", ClipPart::Vision, "hidden_size", true},
    {"vision.feed_forward_length", ClipPart::Vision, "intermediate_size", true},
    {"vision.block_count", ClipPart::Vision, "num_hidden_layers", true},
    {"vision.attention.head_count", ClipPart::Vision, "num_attention_heads", true},
    {"vision.patch_size", ClipPart::Vision, "patch_size", true},
    {"vision.image_size", ClipPart::Vision, "image_size", true},
};

// What says what kind of file it is, or what is read from tensors.
constexpr std::string_view knownKeys[] = {
    "has_audio_encoder",  "has_llava_projector", "has_qwen2vl_merger",    "has_text_encoder",
    "has_vision_encoder", "projector_type",      "vision.projection_dim", "vision.projector_type",
};

constexpr const char *epsKey = "vision.attention.layer_norm_epsilon";
constexpr int64_t mostNumbers = 256; // of an array

} // namespace

std::string jsonIntegers(const std::vector<int64_t> &numbers) {
  std::string list;
  for (int64_t number : numbers)
    list += (list.empty() ? "" : ", ") + std::to_string(number);
  return "[" + list + "]";
}

int64_t ClipConfig::dimension(const char *tensor, size_t axis) const {
  const TensorInfo *found = keys.source().tensors().find(tensor);
  return found && axis < found->shape.size() ? found->shape[axis] : 0;
}

void ClipConfig::add(ClipPart part, const std::string &name, const std::string &json, const char *key) {
  std::string &text = members[size_t(part)];
  text += (text.empty() ? "" : ", ") + jsonString(name) + ": " + json;
  if (key)
    note(part, name, key);
}

void ClipConfig::note(ClipPart part, const std::string &name, const char *key) {
  const auto &values = keys.source().metadata();
  auto value = values.find(keys.full(key));
  if (value == values.end())
    return;
  const uint8_t *begin = keys.source().tensors().files.front()->data();
  origins[size_t(part)][(part == ClipPart::Vision ? "vision_config." : "") + name] = {
      keys.full(key), static_cast<uint64_t>(value->second.data - begin)};
}

void ClipConfig::addNumber(ClipPart part, const std::string &name, const char *key) {
  double number = keys.number(key, 0.0);
  if (!std::isfinite(number))
    return keys.fail(keys.full(key) + " is not a finite number");
  if (has(key))
    add(part, name, jsonNumber(number), key);
}

// Members that the row states.
void ClipConfig::addAll(ClipPart part, const char *stated) {
  std::string all = stated, size = std::to_string(imageSize);
  for (size_t at = all.find('$'); at != all.npos; at = all.find('$'))
    all.replace(at, 1, size);
  std::string &text = members[size_t(part)];
  if (!all.empty())
    text += (text.empty() ? "" : ", ") + all;
  for (const char *name : {"size", "crop_size", "max_image_size"})
    if (part == ClipPart::Processor)
      note(part, name, "vision.image_size");
}

std::vector<int64_t> ClipConfig::integers(const char *key) {
  const auto &values = keys.source().metadata();
  auto value = values.find(keys.full(key));
  if (value == values.end())
    return {};
  int64_t count = static_cast<int64_t>(std::min<uint64_t>(value->second.count, mostNumbers));
  Expected<std::vector<int64_t>> numbers =
      keys.source().integers(keys.full(key), {count, "numbers at most", "this reader"});
  keys.adopt(numbers.status());
  return numbers ? *numbers : std::vector<int64_t>();
}

std::vector<int64_t> ClipConfig::setBits(const char *key) {
  std::vector<int64_t> set;
  int64_t layers = keys.integer("vision.block_count", 0);
  if (!has(key) || layers < 1 || layers > 4096)
    return set;
  Expected<std::vector<bool>> bits =
      keys.source().booleans(keys.full(key), {layers, "layers", keys.full("vision.block_count")});
  keys.adopt(bits.status());
  for (int64_t layer = 0; bits && layer < layers; ++layer)
    if ((*bits)[size_t(layer)])
      set.push_back(layer);
  return set;
}

void ClipConfig::readColors(const char *key, const char *name) {
  Expected<std::vector<float>> colors = keys.source().floats(keys.full(key), {3, "colors", "an image"});
  if (!colors)
    return keys.adopt(colors.status());
  std::string list;
  for (float color : *colors) {
    if (!std::isfinite(color))
      return keys.fail(keys.full(key) + " holds a number that is not finite");
    list += (list.empty() ? "" : ", ") + jsonNumber(double(color));
  }
  add(ClipPart::Processor, name, "[" + list + "]", key);
}

// A row whose norms have one epsilon takes no other: what its config says would be of no effect in the reference.
void ClipConfig::readNorm() {
  double eps = keys.number(epsKey, -1.0);
  if (!has(epsKey))
    return keys.fail(keys.full(epsKey) + " is missing");
  if (!std::isfinite(eps))
    return keys.fail(keys.full(epsKey) + " is not a finite number");
  if (projector.eps == 0.0)
    return add(ClipPart::Vision, "layer_norm_eps", jsonNumber(eps), epsKey);
  if (float(eps) != float(projector.eps))
    unsupported(epsKey, "is " + jsonNumber(eps) + ", which is not supported of projector_type '" + projector.type +
                            "'; expected " + jsonNumber(projector.eps));
}

void ClipConfig::readCommon() {
  for (const Listing<ClipKey> &list : {Listing<ClipKey>(commonKeys), projector.keys})
    for (const ClipKey &entry : list)
      if (entry.isRequired || keys.has(entry.key))
        add(entry.part, entry.json, std::to_string(keys.integer(entry.key)), entry.key);
  imageSize = keys.integer("vision.image_size");
  patchSize = keys.integer("vision.patch_size");
  readNorm();
  bool isGelu = keys.boolean("use_gelu", false), isSilu = keys.boolean("use_silu", false);
  if (isGelu && isSilu)
    keys.fail(keys.full("use_gelu") + " and " + keys.full("use_silu") + " are both true");
  const char *activation = isGelu ? projector.gelu : isSilu ? "silu" : "quick_gelu";
  add(ClipPart::Vision, "hidden_act", jsonString(activation), isSilu ? "use_silu" : "use_gelu");
  readColors("vision.image_mean", "image_mean");
  readColors("vision.image_std", "image_std");
}

// A key that nothing asks for may change results.
void ClipConfig::refuseUnread() {
  std::string prefix = keys.full("");
  for (const auto &[key, value] : keys.source().metadata()) {
    if (key.substr(0, prefix.size()) != prefix)
      continue;
    std::string name(key.substr(prefix.size()));
    if (keys.wasAsked(name.c_str()) ||
        std::find(std::begin(knownKeys), std::end(knownKeys), name) != std::end(knownKeys))
      continue;
    keys.unsupported(printable(key, 128) + " is a key that is not known of projector_type '" + projector.type +
                     "'; expected a file without it");
  }
}

Status ClipConfig::read(int64_t imageToken) {
  readCommon();
  HEDDLE_RETURN_IF_ERROR(keys.status());
  add(ClipPart::Joint, "image_token_id", std::to_string(imageToken));
  add(ClipPart::Vision, "model_type", jsonString(projector.tower));
  addAll(ClipPart::Joint, projector.joined);
  addAll(ClipPart::Processor, projector.processed);
  projector.rest(*this);
  refuseUnread();
  return keys.status();
}

std::string ClipConfig::membersOf(ClipPart part) const {
  return members[size_t(part)];
}

Expected<JsonFile> ClipConfig::config() const {
  JsonOrigins all = origins[size_t(ClipPart::Vision)];
  all.insert(origins[size_t(ClipPart::Joint)].begin(), origins[size_t(ClipPart::Joint)].end());
  return makeJsonFile(keys.source().path(),
                      "{" + membersOf(ClipPart::Joint) + ", \"vision_config\": {" + membersOf(ClipPart::Vision) + "}}",
                      std::move(all));
}

Expected<JsonFile> ClipConfig::processor() const {
  return makeJsonFile(keys.source().path(), "{" + membersOf(ClipPart::Processor) + "}",
                      origins[size_t(ClipPart::Processor)]);
}

} // namespace heddle
