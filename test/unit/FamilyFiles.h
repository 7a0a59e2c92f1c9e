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
// The model of a family with zeros for weights, its config changed by `patch`, written into `folder`.
Expected<Model> readFamily(const TemporaryFolder &folder, const std::string &family,
                           const nlohmann::json &patch = nlohmann::json::object());
// Its config; a failure of the test, and an empty one, where it is refused.
ModelConfig familyConfig(const std::string &family, const nlohmann::json &patch = nlohmann::json::object());
// Why the family's model is refused with `patch`, "" if it is not.
std::string familyRefusal(const std::string &family, const nlohmann::json &patch);

} // namespace heddle::test

#endif
