// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The checkpoints of data/families: config.json and the safetensors header of each, its data left out.
#ifndef HEDDLE_TEST_UNIT_FAMILYFILES_H
#define HEDDLE_TEST_UNIT_FAMILYFILES_H

#include "ModelFiles.h"
#include "bytes/Expected.h"
#include "frontends/ModelConfig.h"

namespace heddle::test {

// The bytes of a file of data/families.
std::string familyData(const std::string &name);
// The model of a family with zeros for weights, its config changed by `patch`, of which null removes a key, and with null for `nulls`
// ("rope_parameters/truncate" within an object); written into `folder`.
Expected<Model> readFamily(const TemporaryFolder &folder, const std::string &family,
                           const nlohmann::json &patch = nlohmann::json::object(),
                           const std::vector<const char *> &nulls = {});
// Its config; a failure of the test, and an empty one, where it is refused.
ModelConfig familyConfig(const std::string &family, const nlohmann::json &patch = nlohmann::json::object(),
                         const std::vector<const char *> &nulls = {});
// Why the family's model is refused with both, "" if it is not.
std::string familyRefusal(const std::string &family, const nlohmann::json &patch,
                          const std::vector<const char *> &nulls = {});

// A family, what is changed of its config, and what the message must hold.
struct FamilyRefusal {
  const char *family;
  nlohmann::json patch;
  const char *expected;
};
void expectRefusals(const std::vector<FamilyRefusal> &refusals);

} // namespace heddle::test

#endif
