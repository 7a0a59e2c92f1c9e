// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts of a task: each runs once, on whatever thread is free.

#include "runtime/session/ThreadPool.h"

#include "gtest/gtest.h"

#include <atomic>
#include <memory>
#include <sched.h>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

using namespace heddle;

namespace {

struct Runs {
  std::atomic<int64_t> ofPart[64] = {};
  std::atomic<int64_t> numParts{0};
};

void count(const void *argument, int64_t part, int64_t numParts) {
  auto &runs = *static_cast<Runs *>(const_cast<void *>(argument));
  runs.numParts = numParts;
  if (part < 64)
    ++runs.ofPart[part];
}

// Part 0 ends when all others have ended, which `argument` counts.
void waitForOthers(const void *argument, int64_t part, int64_t numParts) {
  auto &ended = *static_cast<std::atomic<int64_t> *>(const_cast<void *>(argument));
  if (part != 0)
    ++ended;
  else
    while (ended != numParts - 1)
      sched_yield();
}

} // namespace

TEST(ThreadPoolTest, RunsEveryPartOnce) {
  for (int32_t threads : {1, 2, 3, 7}) {
    std::unique_ptr<ThreadPool> pool;
    ASSERT_TRUE(ThreadPool::createExactly(threads, pool).isOk());
    Runs runs;
    for (int64_t times = 1; times <= 100; ++times) {
      pool->runParts(count, &runs);
      ASSERT_EQ(runs.numParts, threads == 1 ? 1 : threads * HEDDLE_PARTS_PER_THREAD);
      for (int64_t part = 0; part < 64; ++part)
        ASSERT_EQ(runs.ofPart[part], part < runs.numParts ? times : 0) << threads << " threads, part " << part;
    }
  }
}

// Those who wait for the late thread fall asleep: a wake-up that is lost would leave them there.
TEST(ThreadPoolTest, ManyMoreThreadsThanCpusPassBarriers) {
  std::unique_ptr<ThreadPool> pool;
  ASSERT_TRUE(ThreadPool::createExactly(8 * availableCpus(), pool).isOk());
  auto meet = [](void *user, int32_t thread, int32_t numThreads) {
    for (int i = 0; i < 200; ++i) {
      if (i % 20 == 0 && thread == i / 20 % numThreads)
        usleep(5000);
      ThreadPool::waitInStep(user, thread);
    }
  };
  pool->run(meet, pool->stepBarrier());
}

TEST(ThreadPoolTest, NeverMoreThreadsThanCpus) {
  std::unique_ptr<ThreadPool> pool;
  ASSERT_TRUE(ThreadPool::create(1024, pool).isOk());
  EXPECT_EQ(pool->size(), std::min(1024, availableCpus()));
  EXPECT_EQ(pool->askedFor(), 1024);
  ASSERT_TRUE(ThreadPool::create(1, pool).isOk());
  EXPECT_EQ(pool->size(), 1);
  for (int32_t threads : {-1, 1025})
    EXPECT_EQ(ThreadPool::create(threads, pool).message(), format("threads is %d, expected 1 … 1024", threads));
}

TEST(ThreadPoolTest, AForkedProcessHasNoThreads) {
  std::unique_ptr<ThreadPool> pool;
  ASSERT_TRUE(ThreadPool::createExactly(2, pool).isOk());
  EXPECT_TRUE(pool->isOfThisProcess());
  pid_t child = fork();
  if (child == 0) {
    alarm(20); // ends a destructor that waits for threads
    bool isOurs = pool->isOfThisProcess();
    pool.reset();
    _exit(isOurs ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// With equal shares this would not end: the parts that follow part 0 would wait for its thread.
TEST(ThreadPoolTest, PartsDoNotWaitForABusyThread) {
  std::unique_ptr<ThreadPool> pool;
  ASSERT_TRUE(ThreadPool::createExactly(2, pool).isOk());
  std::atomic<int64_t> ended{0};
  pool->runParts(waitForOthers, &ended);
  EXPECT_EQ(ended, 2 * HEDDLE_PARTS_PER_THREAD - 1);
}

namespace {

// The first parts that threads take, none of which ends before each has taken one.
struct FirstParts {
  int64_t numThreads;
  std::atomic<int64_t> taken{0};
  std::atomic<int64_t> parts[8];
};

void takeFirst(const void *argument, int64_t part, int64_t) {
  auto &first = *const_cast<FirstParts *>(static_cast<const FirstParts *>(argument));
  int64_t place = first.taken++;
  if (place < first.numThreads)
    first.parts[place] = part;
  while (first.taken < first.numThreads)
    sched_yield();
}

} // namespace

// Rows of a task then are where those of the task before were written.
TEST(ThreadPoolTest, ThreadsBeginWithTheirOwnParts) {
  constexpr int32_t threads = 4;
  std::unique_ptr<ThreadPool> pool;
  ASSERT_TRUE(ThreadPool::createExactly(threads, pool).isOk());
  FirstParts first{threads};
  pool->runParts(takeFirst, &first);
  std::set<int64_t> parts(first.parts, first.parts + threads);
  constexpr int64_t each = HEDDLE_PARTS_PER_THREAD;
  EXPECT_EQ(parts, (std::set<int64_t>{0, each, 2 * each, 3 * each}));
}
