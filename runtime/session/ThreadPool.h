// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Threads that all run the same function (SPMD) and meet at barriers. The caller is thread 0.
#ifndef HEDDLE_RUNTIME_SESSION_THREADPOOL_H
#define HEDDLE_RUNTIME_SESSION_THREADPOOL_H

#include "bytes/Status.h"
#include "runtime/model/ModelAbi.h"

#include <atomic>
#include <memory>
#include <pthread.h>
#include <unistd.h>

namespace heddle {

// Lets `count` threads pass once all have come. Waiting spins briefly, then yields, then sleeps in the kernel.
class Barrier {
public:
  explicit Barrier(int32_t count) : count(count) {}
  void wait();

private:
  const int32_t count;
  alignas(64) std::atomic<int32_t> arrived{0};
  alignas(64) std::atomic<uint32_t> generation{0};
  std::atomic<int32_t> sleepers{0};
};

class ThreadPool {
public:
  using Job = void (*)(void *user, int32_t thread, int32_t numThreads);

  // `threads` 0: as many as defaultThreadCount(). At most availableCpus() are made: beyond, threads meet at every barrier those that
  // have no CPU, and a step takes several times as long.
  static Status create(int32_t threads, std::unique_ptr<ThreadPool> &outPool);
  // As many as asked for, whatever CPUs there are.
  static Status createExactly(int32_t threads, std::unique_ptr<ThreadPool> &outPool);
  ~ThreadPool();

  // Runs job(user, t, size()) on every thread t and returns when all have ended. Callers on different threads take turns.
  // Allocates nothing.
  void run(Job job, void *user);
  // Runs task(argument, part, numParts) for every part: HEDDLE_PARTS_PER_THREAD for each thread, one for a single thread. A thread begins
  // with parts of its own, which follow each other, so that the rows of one task are where those of the task before were written, and then takes what
  // others have left: cores that others use as well are not equally fast, and of equal shares the slowest decides.
  void runParts(heddle_graph_task task, const void *argument);

  int32_t size() const { return numThreads; }
  // The number that create() was given; above size() where CPUs lack.
  int32_t askedFor() const { return numAskedFor; }
  // Whether this is the process that started the threads: a fork has none of them, and would wait for ever.
  bool isOfThisProcess() const { return getpid() == process; }
  // For the step function: heddle_step::barrier_wait and heddle_step::barrier.
  static void waitInStep(void *barrier, int32_t thread);
  void *stepBarrier() { return &inStep; }

private:
  struct Worker {
    ThreadPool *pool;
    int32_t thread;
    pthread_t handle;
    std::atomic<int64_t> nextPart{0}; // of its own parts of a task, as anyone takes them
  };

  explicit ThreadPool(int32_t numThreads)
      : numThreads(numThreads), process(getpid()), between(numThreads), inStep(numThreads) {}
  static void *workerMain(void *worker);
  void runInTurn(Job job, void *user);

  const int32_t numThreads;
  int32_t numAskedFor = numThreads;
  const pid_t process;
  pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
  Barrier between, inStep;       // before and after a job; within one
  std::atomic<uint32_t> gate{0}; // workers wait while 0; 1: all have started; 2: one could not be
  Job job = nullptr;             // null ends the workers
  void *jobUser = nullptr;
  std::unique_ptr<Worker[]> workers;
  int32_t numWorkers = 0; // started
};

// The pool of a session or a function: one that its caller shares among several, or its own.
class ThreadPoolHandle {
public:
  // `shared` null: a pool of `threads`; 0: as many as defaultThreadCount().
  Status create(ThreadPool *shared, int32_t threads);
  explicit operator bool() const { return pool; }
  ThreadPool &operator*() const { return *pool; }
  ThreadPool *operator->() const { return pool; }

private:
  std::unique_ptr<ThreadPool> own;
  ThreadPool *pool = nullptr;
};

// CPUs, hyperthreads counted, within the affinity mask, at least 1.
int32_t availableCpus();
// Physical cores within the affinity mask, at most what the cgroup's CPU quota pays for, at least 1.
int32_t defaultThreadCount();

} // namespace heddle

#endif
