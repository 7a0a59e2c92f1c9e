// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/ThreadPool.h"

#include "bytes/MemoryScope.h"
#include "bytes/MutexLock.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <linux/futex.h>
#include <new>
#include <sched.h>
#include <sys/syscall.h>

namespace heddle {
namespace {

// About 30 us on the development machines: longer than the kernels between two barriers of one decode step differ.
constexpr int spinRounds = 2000;
constexpr int yieldRounds = 100;
constexpr int32_t maxThreads = 1024;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

void futex(std::atomic<uint32_t> &word, int operation, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

} // namespace

void Barrier::wait() {
  if (count == 1)
    return;
  uint32_t current = generation.load(std::memory_order_acquire);
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    arrived.store(0, std::memory_order_relaxed);
    // Sequentially consistent, as is the waiter's pair: either it sees the new generation, or we see it in sleepers.
    generation.fetch_add(1);
    if (sleepers.load() != 0)
      futex(generation, FUTEX_WAKE, INT_MAX);
    return;
  }
  for (int i = 0; i < spinRounds; ++i) {
    if (generation.load(std::memory_order_acquire) != current)
      return;
    relax();
  }
  for (int i = 0; i < yieldRounds; ++i) {
    if (generation.load(std::memory_order_acquire) != current)
      return;
    sched_yield();
  }
  sleepers.fetch_add(1);
  while (generation.load() == current)
    futex(generation, FUTEX_WAIT, current);
  sleepers.fetch_sub(1);
}

Status ThreadPool::create(int32_t threads, std::unique_ptr<ThreadPool> &outPool) {
  int32_t runnable = 1;
  if (!runInMemory([&] { runnable = threads == 0 ? defaultThreadCount() : std::min(threads, availableCpus()); }))
    return outOfMemory();
  if (threads < 0 || threads > maxThreads)
    return invalidInput(format("threads is %d, expected 1 … %d", threads, maxThreads));
  HEDDLE_RETURN_IF_ERROR(createExactly(runnable, outPool));
  outPool->numAskedFor = threads == 0 ? runnable : threads;
  return Status();
}

Status ThreadPool::createExactly(int32_t numThreads, std::unique_ptr<ThreadPool> &outPool) {
  std::unique_ptr<ThreadPool> pool(new (std::nothrow) ThreadPool(numThreads));
  if (pool)
    pool->workers.reset(new (std::nothrow) Worker[numThreads]);
  if (!pool || !pool->workers)
    return outOfMemory();
  for (int32_t thread = 1; thread < numThreads; ++thread) {
    Worker &worker = pool->workers[thread];
    worker.pool = pool.get();
    worker.thread = thread;
    if (int error = pthread_create(&worker.handle, nullptr, workerMain, &worker))
      return Status::failure(format("thread %d of %d cannot be started: %s", thread, numThreads, strerror(error)));
    ++pool->numWorkers;
  }
  pool->gate.store(1);
  futex(pool->gate, FUTEX_WAKE, INT_MAX);
  outPool = std::move(pool);
  return Status();
}

ThreadPool::~ThreadPool() {
  if (!isOfThisProcess())
    return;
  job = nullptr;
  if (gate.load() == 1) {
    between.wait();
  } else {
    gate.store(2);
    futex(gate, FUTEX_WAKE, INT_MAX);
  }
  for (int32_t thread = 1; thread <= numWorkers; ++thread)
    pthread_join(workers[thread].handle, nullptr);
}

void *ThreadPool::workerMain(void *argument) {
  auto &worker = *static_cast<Worker *>(argument);
  ThreadPool &pool = *worker.pool;
  while (pool.gate.load() == 0)
    futex(pool.gate, FUTEX_WAIT, 0);
  if (pool.gate.load() == 2)
    return nullptr;
  while (true) {
    pool.between.wait();
    if (!pool.job)
      return nullptr;
    pool.job(pool.jobUser, worker.thread, pool.numThreads);
    pool.between.wait();
  }
}

void ThreadPool::run(Job newJob, void *user) {
  MutexLock lock(turn);
  runInTurn(newJob, user);
}

void ThreadPool::runInTurn(Job newJob, void *user) {
  job = newJob;
  jobUser = user;
  between.wait();
  newJob(user, 0, numThreads);
  between.wait();
}

void ThreadPool::runParts(heddle_graph_task task, const void *argument) {
  struct Parts {
    heddle_graph_task task;
    const void *argument;
    Worker *workers;
    int64_t each; // of a thread
  } parts = {task, argument, workers.get(), numThreads == 1 ? 1 : HEDDLE_PARTS_PER_THREAD};
  auto takeParts = [](void *user, int32_t thread, int32_t numThreads) {
    Parts &parts = *static_cast<Parts *>(user);
    for (int32_t i = 0; i < numThreads; ++i) {
      int32_t owner = (thread + i) % numThreads;
      std::atomic<int64_t> &next = parts.workers[owner].nextPart;
      for (int64_t part; (part = next.fetch_add(1, std::memory_order_relaxed)) < parts.each;)
        parts.task(parts.argument, owner * parts.each + part, numThreads * parts.each);
    }
  };
  MutexLock lock(turn);
  for (int32_t thread = 0; thread < numThreads; ++thread)
    workers[thread].nextPart.store(0, std::memory_order_relaxed);
  runInTurn(takeParts, &parts);
}

Status ThreadPoolHandle::create(ThreadPool *shared, int32_t threads) {
  pool = shared;
  if (pool)
    return Status();
  HEDDLE_RETURN_IF_ERROR(ThreadPool::create(threads, own));
  pool = own.get();
  return Status();
}

void ThreadPool::waitInStep(void *barrier, int32_t) {
  static_cast<Barrier *>(barrier)->wait();
}

} // namespace heddle
