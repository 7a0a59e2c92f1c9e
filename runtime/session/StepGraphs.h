// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graphs of a session's steps. What a step launches depends on its heddle_step alone, and on what that names of the host's, which is the
// same for all steps that are kept here: one row in each sequence, all as long as the page table is wide (DeviceStep). So steps whose
// heddle_step has the same bytes have one graph.
#ifndef HEDDLE_RUNTIME_SESSION_STEPGRAPHS_H
#define HEDDLE_RUNTIME_SESSION_STEPGRAPHS_H

#include "runtime/device/Device.h"

namespace heddle {

class StepGraphs {
public:
  static constexpr int limit = 16; // kinds of steps that are remembered

  struct Kind {
    heddle_step step;
    uint32_t results; // which results are downloaded
    uint64_t lastUse; // 0: the place is free
    DeviceGraph graph;
  };

  StepGraphs() = default;
  StepGraphs(const StepGraphs &) = delete;
  StepGraphs &operator=(const StepGraphs &) = delete;
  ~StepGraphs();

  void begin(Device &newDevice);
  // Why steps are launched kernel by kernel; a success where they are not.
  const Status &refusal() const { return refused; }
  // A step of a kind that was met before may have a graph or get one: that its kernels have run is what recording asks for. Null for the
  // first of its kind, which takes the place of the kind that was not met for the longest time.
  Kind *find(const heddle_step &step, uint32_t results);
  // A graph could not be recorded: no more of them are tried.
  void giveUp(Status why);

private:
  Device *device = nullptr;
  Status refused;
  Kind kinds[limit] = {};
  uint64_t uses = 0;
};

} // namespace heddle

#endif
