// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "FamilyFiles.h"
#include "frontends/read/ReadModel.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using nlohmann::json;

namespace heddle::test {

std::string familyData(const std::string &name) {
  std::ifstream file(std::string(HEDDLE_TEST_DIR) + "/unit/data/families/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Expected<Model> readFamily(const TemporaryFolder &folder, const std::string &family, const json &patch,
                           const std::vector<const char *> &nulls) {
  json config = json::parse(familyData(family + "/config.json"));
  config.merge_patch(patch);
  for (const char *key : nulls)
    config[json::json_pointer(std::string("/") + key)] = nullptr;
  folder.write("config.json", config.dump());
  std::string header = familyData(family + "/header.json");
  uint64_t end = 0;
  for (const json &tensor : json::parse(header))
    if (tensor.contains("data_offsets"))
      end = std::max(end, tensor["data_offsets"][1].get<uint64_t>());
  folder.write("model.safetensors", safetensorsFile(header, end));
  return readModel(folder.path());
}

ModelConfig familyConfig(const std::string &family, const json &patch, const std::vector<const char *> &nulls) {
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, family, patch, nulls);
  EXPECT_TRUE(model) << family << ": " << model.message();
  return model ? model->config : ModelConfig();
}

std::string familyRefusal(const std::string &family, const json &patch, const std::vector<const char *> &nulls) {
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, family, patch, nulls);
  return model ? "" : model.message();
}

void expectRefusals(const std::vector<FamilyRefusal> &refusals) {
  for (const auto &[family, patch, expected] : refusals) {
    std::string message = familyRefusal(family, patch);
    EXPECT_NE(message.find(expected), std::string::npos) << family << ": " << message;
  }
}

} // namespace heddle::test
