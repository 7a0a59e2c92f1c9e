// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/mmproj/Projector.h"

namespace heddle {

const Projector *findProjector(const ProjectorList &projectors, std::string_view type, const Checkpoint &tensors) {
  const Projector *found = nullptr;
  for (const Projector &row : projectors)
    if (type == row.type && (row.mark ? tensors.find(row.mark) != nullptr : !found))
      found = &row;
  return found;
}

std::string knownProjectors(const ProjectorList &projectors) {
  std::string known, before;
  for (const Projector &row : projectors) {
    if (before != row.type)
      known += (known.empty() ? "" : ", ") + std::string(row.type);
    before = row.type;
  }
  return known;
}

} // namespace heddle
