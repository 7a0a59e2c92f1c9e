// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decoding allocates nothing: every operator new of the program is counted (the runtime's containers allocate by no other way).
#include "test/unit/TestModel.h"

#include "runtime/session/Sampler.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> allocations{0};
}

void *operator new(size_t size) {
  ++allocations;
  if (void *memory = malloc(size ? size : 1))
    return memory;
  abort();
}
void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return operator new(size);
}
void operator delete(void *memory) noexcept {
  free(memory);
}
void operator delete(void *memory, size_t) noexcept {
  free(memory);
}

using namespace heddle;
using namespace heddle::reference;

namespace {

TEST(Allocations, noneInDecode) {
  TestModel model;
  SessionOptions options;
  options.threads = 2;
  options.maxSequences = 2;
  auto session = model.session(options);
  SamplerOptions sampling;
  sampling.temperature = 0.8f;
  sampling.topP = 0.9f;
  sampling.topK = 40;
  Sampler sampler(sampling, vocabSize);
  int32_t ids[2] = {5, 6};
  Feed feeds[] = {{0, 1, ids, nullptr}, {1, 1, ids + 1, nullptr}};
  int64_t before = allocations;
  bool ok = true;
  for (int i = 0; i < 100; ++i) { // over a page border
    ok &= session->step(feeds, 2).isOk();
    ids[0] = sampler.sample(session->logits(0));
    ids[1] = sampler.sample(session->logits(1));
  }
  int64_t after = allocations;
  EXPECT_TRUE(ok);
  EXPECT_EQ(after - before, 0);
  EXPECT_GT(before, 0);
}

} // namespace
