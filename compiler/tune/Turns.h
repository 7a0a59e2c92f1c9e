// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times of calls that take turns, so that what disturbs the machine for a while disturbs all of them alike.
#ifndef HEDDLE_COMPILER_TUNE_TURNS_H
#define HEDDLE_COMPILER_TUNE_TURNS_H

#include "llvm/ADT/ArrayRef.h"

#include <atomic>
#include <cstdint>
#include <functional>

namespace heddle {

// Threads meet here again and again. They wait awake, as those of a step do, unless somebody else needs the core.
class MeetingPoint {
public:
  explicit MeetingPoint(int32_t threads) : threads(threads) {}
  void wait();

private:
  const int32_t threads;
  std::atomic<int32_t> arrived{0};
  std::atomic<uint64_t> passed{0};
};

struct Turn {
  std::function<void(int32_t thread)> body; // a call: run once by every thread
  int64_t repeats = 1;                      // calls in a round
  double seconds = 1e30;                    // of a call, in the best round
};

// In every round each turn in its order, its calls one after the other. All threads, at least one, begin a call together.
void takeTurns(int32_t threads, int rounds, llvm::ArrayRef<Turn *> turns);

// Runs `turn` once or more, and sets its repeats such that a round takes about so many seconds.
void setRepeats(int32_t threads, Turn &turn, double secondsOfRound);

} // namespace heddle

#endif
