// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which of the CPUs that a file has code for is the one at hand.
#ifndef HEDDLE_RUNTIME_MODEL_VARIANTS_H
#define HEDDLE_RUNTIME_MODEL_VARIANTS_H

#include "bytes/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// What the code for one target needs.
struct VariantNeeds {
  std::string target;
  std::vector<std::string_view> features; // LLVM's names
};

// Of the variants whose features `hasFeature` all confirms, the one with the most of them; of equals the first. With `wanted`, the one of that
// target. Errors, one line: features that are missing, for each variant where nothing is wanted; a target that is wanted and is none of them.
Status chooseVariant(const std::vector<VariantNeeds> &variants, std::string_view wanted,
                     bool (*hasFeature)(std::string_view), size_t &outIndex);

} // namespace heddle

#endif
