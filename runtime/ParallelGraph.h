// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a graph's products run on: the call that the runtime makes begins with heddle_graph_call (runtime/ModelAbi.h).
#ifndef HEDDLE_RUNTIME_PARALLELGRAPH_H
#define HEDDLE_RUNTIME_PARALLELGRAPH_H

#include "runtime/ModelAbi.h"

#ifdef __cplusplus
extern "C" {
#endif

// Thread `thread`'s share of what `argument` describes. A task calls nothing back.
typedef void (*heddle_graph_task)(const void *argument, int64_t thread, int64_t num_threads);

typedef struct heddle_parallel_graph_call {
  heddle_graph_call call;
  // Runs task(argument, t, num_threads) on every thread t and returns when all have ended.
  void (*parallel)(heddle_graph_call *call, heddle_graph_task task, const void *argument);
} heddle_parallel_graph_call;

#ifdef __cplusplus
}
#endif
#endif
