// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Model files built in memory, so that a test can bend one byte of them.
#ifndef HEDDLE_TEST_UNIT_MODELFILES_H
#define HEDDLE_TEST_UNIT_MODELFILES_H

#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace heddle::test {

// A fresh folder, removed with everything in it.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string path(const std::string &name = "") const { return name.empty() ? root : root + "/" + name; }
  std::string write(const std::string &name, const std::string &bytes) const; // returns its path

private:
  std::string root;
};

template <typename T> std::string bytesOf(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(&bytes[0], &value, sizeof(T));
  return bytes;
}
std::string zeros(size_t count);
std::string floats(const std::vector<float> &values);

// The message of readModel, "" if it accepts.
std::string refusal(const std::string &path);

struct GgufTensor {
  std::string name;
  std::vector<int64_t> dims; // innermost first
  uint32_t type;             // as the file says it
  std::string data;
  int64_t offset = -1; // -1: behind the tensor before
};

struct GgufPair {
  std::string key;
  uint32_t type;
  std::string value;
};

// Every field can be changed before bytes() lays the file out.
struct GgufBuilder {
  uint32_t version = 3;
  uint64_t alignment = 32;
  int64_t numTensors = -1, numPairs = -1; // -1: as many as there are
  std::vector<GgufPair> pairs;
  std::vector<GgufTensor> tensors;

  void u32(const std::string &key, uint32_t value) { set(key, 4, bytesOf(value)); }
  void f32(const std::string &key, float value) { set(key, 6, bytesOf(value)); }
  void string(const std::string &key, const std::string &value) {
    set(key, 8, bytesOf<uint64_t>(value.size()) + value);
  }
  void strings(const std::string &key, const std::vector<std::string> &values);
  // Replaces a pair or appends one.
  void set(const std::string &key, uint32_t type, const std::string &value);
  void erase(const std::string &key);
  GgufTensor &tensor(const std::string &name);
  std::string bytes() const;
};

// llama: 2 layers, 16 wide, 4 heads of 4, 2 KV heads, 24 inner, 32 tokens, F32, all zero.
GgufBuilder tinyGguf();

struct SafetensorsTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
};

// Tensors laid out one behind the other, all zero.
nlohmann::ordered_json safetensorsHeader(const std::vector<SafetensorsTensor> &tensors);
std::string safetensorsFile(const std::string &header, size_t dataBytes);
std::string safetensorsFile(const std::vector<SafetensorsTensor> &tensors);

// The model of tinyGguf as config.json and as tensors.
nlohmann::json tinyConfig();
std::vector<SafetensorsTensor> tinyTensors();
// Writes both into `folder`.
void writeHuggingFace(const TemporaryFolder &folder, const nlohmann::json &config,
                      const std::vector<SafetensorsTensor> &tensors);

} // namespace heddle::test

#endif
