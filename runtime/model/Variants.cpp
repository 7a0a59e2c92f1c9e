// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/model/Variants.h"

namespace heddle {
namespace {

std::string missingFeatures(const VariantNeeds &variant, bool (*hasFeature)(std::string_view)) {
  std::string missing;
  for (std::string_view feature : variant.features)
    if (!hasFeature(feature))
      missing += (missing.empty() ? "" : ", ") + std::string(feature);
  return missing;
}

std::string targetNames(const std::vector<VariantNeeds> &variants) {
  std::string names;
  for (size_t i = 0; i < variants.size(); ++i)
    names += (i == 0 ? "" : i + 1 < variants.size() ? ", " : " and ") + variants[i].target;
  return names;
}

Status chooseWanted(const std::vector<VariantNeeds> &variants, std::string_view wanted,
                    bool (*hasFeature)(std::string_view), size_t &outIndex) {
  for (size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].target != wanted)
      continue;
    std::string missing = missingFeatures(variants[i], hasFeature);
    if (missing.empty())
      outIndex = i;
    return missing.empty() ? Status()
                           : Status::failure("cpu " + variants[i].target + ": this machine lacks " + missing);
  }
  return invalidInput("cpu '" + std::string(wanted) + "': the code is for " + targetNames(variants));
}

} // namespace

Status chooseVariant(const std::vector<VariantNeeds> &variants, std::string_view wanted,
                     bool (*hasFeature)(std::string_view), size_t &outIndex) {
  if (!wanted.empty())
    return chooseWanted(variants, wanted, hasFeature, outIndex);
  const VariantNeeds *best = nullptr;
  std::string lacks;
  for (const VariantNeeds &variant : variants) {
    std::string missing = missingFeatures(variant, hasFeature);
    if (!missing.empty())
      lacks += (lacks.empty() ? "" : "; ") + (variants.size() > 1 ? "for " + variant.target + " " : "") + missing;
    else if (!best || variant.features.size() > best->features.size())
      best = &variant;
  }
  if (!best)
    return Status::failure("compiled for " + targetNames(variants) + ", but this machine lacks " + lacks);
  outIndex = best - variants.data();
  return Status();
}

} // namespace heddle
