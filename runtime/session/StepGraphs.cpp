// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/StepGraphs.h"

#include <algorithm>
#include <cstring>

namespace heddle {

StepGraphs::~StepGraphs() {
  for (Kind &kind : kinds)
    if (kind.graph.handle)
      device->releaseGraph(kind.graph);
}

void StepGraphs::begin(Device &newDevice) {
  device = &newDevice;
  refused = device->canRecord();
}

StepGraphs::Kind *StepGraphs::find(const heddle_step &step, uint32_t results) {
  static_assert(std::has_unique_object_representations_v<heddle_step>, "steps are compared as bytes");
  ++uses;
  for (Kind &kind : kinds)
    if (kind.lastUse && kind.results == results && memcmp(&kind.step, &step, sizeof step) == 0) {
      kind.lastUse = uses;
      return &kind;
    }
  Kind &oldest = *std::min_element(std::begin(kinds), std::end(kinds),
                                   [](const Kind &a, const Kind &b) { return a.lastUse < b.lastUse; });
  device->releaseGraph(oldest.graph);
  oldest = {step, results, uses, {}};
  return nullptr;
}

void StepGraphs::giveUp(Status why) {
  refused = std::move(why);
}

} // namespace heddle
