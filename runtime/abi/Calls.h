// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the functions of the C ABI share: the objects behind its pointers, checks of arguments and structs, and the message of a failure.
#ifndef HEDDLE_RUNTIME_ABI_CALLS_H
#define HEDDLE_RUNTIME_ABI_CALLS_H

#include "bytes/MemoryScope.h"
#include "runtime/include/heddle/heddle.h"
#include "runtime/session/Package.h"
#include "runtime/session/Sampler.h"
#include "runtime/session/Session.h"
#include "runtime/text/template/Template.h"
#include "runtime/text/tokenizer/TextStream.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>

struct heddle_package {
  // Whom the package's log calls.
  struct LogTarget {
    heddle_log_callback log;
    void *user;
  } log = {};
  std::unique_ptr<heddle::Package> package;
  std::unique_ptr<heddle::Tokenizer> tokenizer;       // null: the model has none
  std::unique_ptr<heddle::ChatTemplate> chatTemplate; // null: the model has none
};

struct heddle_session {
  heddle_package *owner = nullptr;
  heddle::ThreadPoolHandle pool;
  std::unique_ptr<heddle::Session> session;
  // (max_sequences) each: of the running call; of an encoder-decoder what it encodes, and for which sequences.
  heddle::ReservedArray<heddle::Feed> feeds;
  heddle::ReservedArray<heddle::EncoderInput> sources;
  heddle::ReservedArray<int32_t> sequences;
  heddle_progress_callback progress = nullptr;
  void *progressUser = nullptr;
};

struct heddle_thread_pool {
  std::unique_ptr<heddle::ThreadPool> pool;
};

namespace heddle::abi {

// Keeps the message for heddle_error_message.
heddle_status report(const Status &status);

// Runs what acquires things for an answer and otherwise leaves nothing behind: its memory may lack. `call` gives a Status, calls nobody
// outside of the library and keeps to what MemoryScope.h asks for.
template <typename Call> Status callInMemory(const Call &call) {
  Status status;
  return runInMemory([&] { status = call(); }) ? status : outOfMemory();
}
template <typename Call> heddle_status runInMemoryOrReport(const Call &call) {
  return report(callInMemory(call));
}

// What a caller gives by its name in heddle.h.
struct Argument {
  template <typename T>
  Argument(const char *name, T *pointer) : name(name), pointer(static_cast<const void *>(pointer)) {}
  const char *name;
  const void *pointer;
};
Status checkNotNull(std::initializer_list<Argument> arguments);

// An array of which `count` elements are read or written: null where there are none.
template <typename T> Argument array(const char *name, T *elements, size_t count) {
  return {name, count ? static_cast<const void *>(elements) : ""};
}

// `size` bytes of a struct of which this library knows `known`: at least its size field, and zeros behind what is known.
Status checkStruct(const char *name, const void *bytes, size_t size, size_t known);

// Copies an option struct of any version: fields that the caller does not know are zero, and so are all of a null one.
template <typename T> Status copyOptions(const char *name, const T *options, T &out) {
  memset(&out, 0, sizeof out);
  if (!options)
    return Status();
  HEDDLE_RETURN_IF_ERROR(checkStruct(name, options, options->size, sizeof out));
  memcpy(&out, options, std::min(options->size, sizeof out));
  return Status();
}

// The same of element `index` of an array: it has the size of the first, at least that of the first version.
template <typename T> Status copyElement(const char *name, const T *elements, size_t index, T &out) {
  auto bytes = reinterpret_cast<const uint8_t *>(elements) + index * elements->size;
  HEDDLE_RETURN_IF_ERROR(copyOptions(name, reinterpret_cast<const T *>(bytes), out));
  if (out.size == elements->size && out.size >= sizeof out)
    return Status();
  return invalidInput(format("%s %zu: size is %zu, expected %zu as of the first", name, index, out.size,
                             std::max(elements->size, sizeof out)));
}

// Lets `step` change a copy of the stream and give text, so that a lack of memory, which is false, leaves both as they were.
template <typename Step> bool advance(std::unique_ptr<TextStream> &stream, std::string &text, const Step &step) {
  return runInMemory([&] {
    std::unique_ptr<TextStream> next(new TextStream(*stream));
    std::string given;
    step(*next, given);
    std::swap(stream, next);
    std::swap(text, given);
  });
}

// Writes as much of `value` as the caller's struct has room for; the caller has set its size.
template <typename T> Status writeStruct(const char *name, const T &value, T *out) {
  HEDDLE_RETURN_IF_ERROR(checkNotNull({{name, out}}));
  size_t size = out->size;
  if (size < sizeof(size_t))
    return invalidInput(format("the size field of %s is not set", name));
  memset(out, 0, size);
  memcpy(out, &value, std::min(size, sizeof value));
  out->size = size;
  return Status();
}

// Writes at most `capacity` of `count` elements, and the number that there are.
template <typename T> void copyOut(const T *elements, size_t count, T *out, size_t capacity, size_t *outCount) {
  std::copy_n(elements, std::min(capacity, count), out);
  *outCount = count;
}

Status checkIds(const int32_t *ids, size_t count);
Status readStops(const char *const *stops, int32_t count, std::vector<std::string> &out);
Status readSamplerOptions(const heddle_sampler_options *options, SamplerOptions &out);
// The pool of a session or function: `shared`, else `threads` of its own, of which the package's log hears.
Status createPool(const heddle_package &package, heddle_thread_pool *shared, int32_t threads, ThreadPoolHandle &out);

} // namespace heddle::abi

#endif
