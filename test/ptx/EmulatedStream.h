// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Streams and graphs of the emulated driver, by NVIDIA's CUDA Driver API: a stream runs what it is given at once, unless it captures. Then nothing
// runs; kernels are kept with the values of their arguments, copies with their addresses.
//   - A capture ends on its stream, and on its thread unless its mode is relaxed.
//   - Whoever waits for a capturing stream is refused, and so is a call that a graph would not repeat (memory, modules): to the thread that
//     captures in the mode of its thread, to every thread where the mode is global. The capture is then invalid: nothing more goes into it,
//     and its end gives no graph.
// Stricter than the driver: a graph that captures the launch of another is refused, and so is a captured copy from or to memory of the host that is not locked.
#ifndef HEDDLE_TEST_PTX_EMULATEDSTREAM_H
#define HEDDLE_TEST_PTX_EMULATEDSTREAM_H

#include "runtime/device/CudaApi.h"

#include <functional>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <set>
#include <vector>

namespace heddle::emulated {

enum : int32_t {
  invalidValue = 1,
  illegalState = 401,
  captureUnsupported = 900,
  captureInvalidated = 901,
  captureWrongThread = 908
};

using Operation = std::function<int32_t()>;

struct Graph {
  std::vector<Operation> operations;
};

class Stream {
public:
  // Runs it, or keeps it for the graph.
  int32_t enqueue(Operation operation);
  int32_t synchronise();
  int32_t begin(uint32_t newMode);
  int32_t end(Graph *&outGraph);
  bool isCapturing() const { return captured != nullptr; }

private:
  friend class Streams;
  std::unique_ptr<Graph> captured; // null: it does not capture
  uint32_t mode = 0;
  bool isInvalid = false;
  pthread_t thread = {};
};

// All of the driver. Calls of several threads come one after the other.
class Streams {
public:
  Stream *create();
  int32_t destroy(Stream *stream);
  bool has(Stream *stream) const { return streams.count(stream) != 0; }
  // A call that no graph would repeat: refused while one that this thread must not disturb is captured, which it makes invalid.
  int32_t doUncaptured();
  std::mutex mutex;

private:
  std::set<Stream *> streams;
};

} // namespace heddle::emulated

#endif
