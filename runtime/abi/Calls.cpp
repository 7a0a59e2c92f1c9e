// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/abi/Calls.h"

#include "bytes/Allocator.h"
#include "bytes/Utf8.h"

#include <cstdio>

namespace heddle::abi {

// Plain bytes: an object with a destructor would need the C++ library's thread exit hooks.
static thread_local char lastError[1024];

heddle_status report(const Status &status) {
  size_t size = wholeCharacters(status.message(), sizeof lastError - 1);
  memcpy(lastError, status.message().data(), size);
  lastError[size] = '\0';
  switch (status.code()) {
  case StatusCode::Ok:
    return HEDDLE_OK;
  case StatusCode::InvalidInput:
  case StatusCode::Unsupported:
  case StatusCode::Unreadable:
    return HEDDLE_INVALID_INPUT;
  case StatusCode::OutOfMemory:
    return HEDDLE_OUT_OF_MEMORY;
  case StatusCode::Cancelled:
    return HEDDLE_CANCELLED;
  case StatusCode::ContextFull:
    return HEDDLE_CONTEXT_FULL;
  case StatusCode::NotFinite:
    return HEDDLE_NOT_FINITE;
  case StatusCode::DamagedFile:
    return HEDDLE_DAMAGED_FILE;
  case StatusCode::Failure:
    break;
  }
  return HEDDLE_FAILURE;
}

Status checkNotNull(std::initializer_list<Argument> arguments) {
  for (const Argument &argument : arguments)
    if (!argument.pointer)
      return invalidInput(format("%s is a null pointer", argument.name));
  return Status();
}

Status checkStruct(const char *name, const void *bytes, size_t size, size_t known) {
  if (size < sizeof(size_t))
    return invalidInput(format("the size field of %s is not set", name));
  if (size > 4096)
    return invalidInput(format("the size field of %s is %zu, expected %zu", name, size, known));
  for (size_t i = known; i < size; ++i)
    if (static_cast<const uint8_t *>(bytes)[i] != 0)
      return invalidInput(
          format("%s: byte %zu is set, this library knows %zu: the caller is of a later version", name, i, known));
  return Status();
}

Status checkIds(const int32_t *ids, size_t count) {
  if (!ids && count)
    return invalidInput(format("the %zu ids are a null pointer", count));
  return count <= INT32_MAX ? Status() : invalidInput(format("%zu tokens, at most 2^31 - 1 are expected", count));
}

Status readStops(const char *const *stops, int32_t count, std::vector<std::string> &out) {
  if (count < 0 || (count > 0 && !stops))
    return invalidInput(format("num_stops is %d, and stops is%s a null pointer", count, stops ? " not" : ""));
  for (int32_t i = 0; i < count; ++i) {
    if (!stops[i] || !*stops[i])
      return invalidInput(format("stop string %d is empty", i));
    if (!isUtf8(stops[i]))
      return invalidInput(format("stop string %d is not UTF-8, and no text holds it", i));
    out.emplace_back(stops[i]);
  }
  return Status();
}

Status readSamplerOptions(const heddle_sampler_options *options, SamplerOptions &out) {
  heddle_sampler_options given;
  HEDDLE_RETURN_IF_ERROR(copyOptions("heddle_sampler_options", options, given));
  if (given.reserved)
    return invalidInput("heddle_sampler_options: reserved is not 0");
  out.temperature = given.temperature;
  out.topK = given.top_k;
  out.topP = given.top_p == 0 ? 1 : given.top_p;
  out.minP = given.min_p;
  out.repetitionPenalty = given.repetition_penalty == 0 ? 1 : given.repetition_penalty;
  out.seed = given.seed;
  return checkSamplerOptions(out);
}

Status createPool(const heddle_package &package, heddle_thread_pool *shared, int32_t threads, ThreadPoolHandle &out) {
  if (shared && threads)
    return invalidInput(format("threads is %d, and there is a pool: expected 0", threads));
  HEDDLE_RETURN_IF_ERROR(out.create(shared ? shared->pool.get() : nullptr, threads));
  if (!shared)
    package.package->sayOfThreads(*out);
  return Status();
}

} // namespace heddle::abi

using namespace heddle;
using namespace heddle::abi;

#define HEDDLE_TEXT_OF(x) #x
#define HEDDLE_DOTTED(a, b, c) HEDDLE_TEXT_OF(a) "." HEDDLE_TEXT_OF(b) "." HEDDLE_TEXT_OF(c)
static_assert(std::string_view(HEDDLE_VERSION) ==
                  HEDDLE_DOTTED(HEDDLE_VERSION_MAJOR, HEDDLE_VERSION_MINOR, HEDDLE_VERSION_PATCH),
              "heddle.h has the project's version");

const char *heddle_error_message(void) {
  return lastError;
}

const char *heddle_version_string(void) {
  return HEDDLE_VERSION;
}

uint32_t heddle_abi_version(void) {
  return HEDDLE_ABI_VERSION;
}

heddle_status heddle_set_allocator(const heddle_allocator *allocator) {
  Status status = checkNotNull({{"allocator", allocator}});
  heddle_allocator given;
  if (status.isOk())
    status = copyOptions("heddle_allocator", allocator, given);
  if (status.isOk() && !given.allocate != !given.release)
    status = invalidInput("an allocator has both functions or none");
  if (status.isOk() && !setAllocator({given.allocate, given.release, given.user}))
    status =
        invalidInput("heddle_set_allocator is called while there are objects, whose memory is the old allocator's");
  return report(status);
}

heddle_status heddle_thread_pool_create(int32_t threads, heddle_thread_pool **out_pool) {
  Status status = checkNotNull({{"out_pool", out_pool}});
  std::unique_ptr<heddle_thread_pool> made(new (std::nothrow) heddle_thread_pool);
  if (status.isOk() && !made)
    status = outOfMemory();
  if (status.isOk())
    status = ThreadPool::create(threads, made->pool);
  if (status.isOk())
    *out_pool = made.release();
  return report(status);
}

void heddle_thread_pool_destroy(heddle_thread_pool *pool) {
  delete pool;
}
