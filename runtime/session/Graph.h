// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Graph entries of a model: named tensors of any shape in, named tensors out.
#ifndef HEDDLE_RUNTIME_SESSION_GRAPH_H
#define HEDDLE_RUNTIME_SESSION_GRAPH_H

#include "bytes/Safetensors.h"
#include "runtime/model/ModelAbi.h"
#include "runtime/session/Package.h"
#include "runtime/session/StepProfile.h"
#include "runtime/session/TensorArena.h"
#include "runtime/session/ThreadPool.h"

#include <csetjmp>
#include <vector>

namespace heddle {

uint64_t elementBytes(package::DataType type);
// shape x type; false where that exceeds 64 bits.
bool sizeInBytes(package::DataType type, const std::vector<int64_t> &shape, uint64_t &outSize);

// An input of a run: bytes that outlive it.
struct GraphInput {
  package::DataType type = package::DataType::F32;
  std::vector<int64_t> shape;
  const void *data = nullptr;
  std::vector<uint8_t> filled; // instead of data, where the call lacks the tensor
  const void *bytes() const { return filled.empty() ? data : filled.data(); }
};

// An output, valid until the next run.
struct GraphOutput {
  std::vector<int64_t> shape;
  const void *data = nullptr;
  uint64_t size = 0;
};

// Puts named tensors into the order of the graph's inputs, and fills those that may lack. `where` begins the message where one is missing, unknown or of no type that
// graphs have.
Status orderInputs(const package::Graph &graph, const std::vector<StoredTensor> &tensors, const std::string &where,
                   std::vector<GraphInput> &outInputs);

// Runs graph entry `index` of a package. What a run allocates and does not release lives until the next run; its memory is kept for that one.
class GraphRunner {
public:
  // `shared` null: threads of its own, which start when a run first has work for them; 0: defaultThreadCount().
  GraphRunner(const Package &package, unsigned index, int32_t threads, ThreadPool *shared = nullptr)
      : package(package), index(index), threads(threads), shared(shared) {}
  GraphRunner(const GraphRunner &) = delete;

  // `inputs` in the order of the package, types and shapes as it declares them: `where` begins the message where they are not.
  Status run(const std::vector<GraphInput> &inputs, const std::string &where, std::vector<GraphOutput> &outOutputs);
  // Counts from here on what runs spend in each kernel, their time with that of the other threads: (kernels + 1), the last being loops that are no
  // kernel's.
  void profileKernels();
  std::vector<KernelUse> &kernelUses() { return uses; }
  // The threads of a run, which start if they have not.
  Status startThreads();
  ThreadPool &threadPool() { return *pool; }
  // Most bytes that were allocated at one time in the last run.
  uint64_t peakBytes() const { return arena.peakBytes(); }

private:
  struct Call : heddle_graph_call {
    GraphRunner *runner;
    Status ended; // why it did not return
  };

  const package::Graph &graph() const { return *package.metadata().graphs()->Get(index); }
  Status checkInputs(const std::vector<GraphInput> &inputs, const std::string &where) const;
  const void *usable(const GraphInput &input, Status &outStatus);
  void *allocate(int64_t size, Status &outStatus);
  static void *onAllocate(heddle_graph_call *call, int64_t size);
  static void onRelease(heddle_graph_call *call, void *memory);
  static void onFail(heddle_graph_call *call, const char *message);
  static void onParallel(heddle_graph_call *call, heddle_graph_task task, const void *argument);
  static void onObserve(heddle_graph_call *call, int64_t kernel, double work, int64_t ended);

  const Package &package;
  const unsigned index;
  const int32_t threads;
  ThreadPool *const shared;
  ThreadPoolHandle pool;
  TensorArena arena;           // of the run's tensors
  jmp_buf caller;              // generated code has nothing to destroy
  std::vector<KernelUse> uses; // empty: not counted
  uint64_t taskStart = 0;
};

} // namespace heddle

#endif
