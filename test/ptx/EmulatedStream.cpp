// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/ptx/EmulatedStream.h"

namespace heddle::emulated {

int32_t Stream::enqueue(Operation operation) {
  if (!captured)
    return operation();
  if (isInvalid)
    return captureInvalidated;
  captured->operations.push_back(std::move(operation));
  return cuda::success;
}

int32_t Stream::synchronise() {
  if (!captured)
    return cuda::success;
  isInvalid = true;
  return captureUnsupported;
}

int32_t Stream::begin(uint32_t newMode) {
  if (newMode > cuda::captureRelaxed)
    return invalidValue;
  if (captured)
    return illegalState;
  captured = std::make_unique<Graph>();
  mode = newMode;
  isInvalid = false;
  thread = pthread_self();
  return cuda::success;
}

int32_t Stream::end(Graph *&outGraph) {
  outGraph = nullptr;
  if (!captured)
    return illegalState;
  if (mode != cuda::captureRelaxed && !pthread_equal(thread, pthread_self()))
    return captureWrongThread;
  std::unique_ptr<Graph> graph = std::move(captured);
  if (isInvalid)
    return captureInvalidated;
  outGraph = graph.release();
  return cuda::success;
}

Stream *Streams::create() {
  return *streams.insert(new Stream).first;
}

int32_t Streams::destroy(Stream *stream) {
  if (!streams.erase(stream))
    return invalidValue;
  delete stream;
  return cuda::success;
}

int32_t Streams::doUncaptured() {
  int32_t code = cuda::success;
  for (Stream *stream : streams) {
    bool isDisturbed = stream->mode == cuda::captureGlobal ||
                       (stream->mode == cuda::captureThreadLocal && pthread_equal(stream->thread, pthread_self()));
    if (!stream->captured || !isDisturbed)
      continue;
    stream->isInvalid = true;
    code = captureUnsupported;
  }
  return code;
}

} // namespace heddle::emulated
