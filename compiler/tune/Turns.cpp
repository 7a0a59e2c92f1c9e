// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/tune/Turns.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

using namespace heddle;
using Clock = std::chrono::steady_clock;

void MeetingPoint::wait() {
  uint64_t turn = passed.load();
  if (arrived.fetch_add(1) + 1 == threads) {
    arrived = 0;
    passed.fetch_add(1);
    return;
  }
  for (int spins = 0; passed.load() == turn; ++spins)
    if (spins > 1000)
      std::this_thread::yield();
}

// `body(meet, thread)` on each thread; the caller is the first.
static void runOnThreads(int32_t threads, const std::function<void(MeetingPoint &, int32_t)> &body) {
  MeetingPoint point(threads);
  std::vector<std::thread> others;
  for (int32_t thread = 1; thread < threads; ++thread)
    others.emplace_back([&, thread] { body(point, thread); });
  body(point, 0);
  for (std::thread &other : others)
    other.join();
}

// The seconds of a call, on the first thread.
static double timeCalls(const Turn &turn, MeetingPoint &point, int32_t thread) {
  point.wait();
  auto start = Clock::now();
  for (int64_t call = 0; call < turn.repeats; ++call) {
    turn.body(thread);
    point.wait();
  }
  return std::chrono::duration<double>(Clock::now() - start).count() / double(turn.repeats);
}

void heddle::takeTurns(int32_t threads, int rounds, llvm::ArrayRef<Turn *> turns) {
  runOnThreads(threads, [&](MeetingPoint &point, int32_t thread) {
    for (int round = 0; round < rounds; ++round)
      for (Turn *turn : turns)
        if (double seconds = timeCalls(*turn, point, thread); thread == 0)
          turn->seconds = std::min(turn->seconds, seconds);
  });
}

void heddle::setRepeats(int32_t threads, Turn &turn, double secondsOfRound) {
  constexpr int64_t most = 1 << 20;
  for (turn.repeats = 1;;) {
    double seconds = 0;
    runOnThreads(threads, [&](MeetingPoint &point, int32_t thread) {
      if (double taken = timeCalls(turn, point, thread); thread == 0)
        seconds = taken;
    });
    double wanted = secondsOfRound / std::max(seconds, 1e-9);
    // A single call may have met what only the first one meets: an estimate counts once it is of some.
    bool isKnown = double(turn.repeats) * 4 >= wanted;
    turn.repeats = std::clamp<int64_t>(int64_t(wanted), 1, isKnown ? most : std::min(turn.repeats * 8, most));
    if (isKnown || turn.repeats == most)
      return;
  }
}
