// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Holds a mutex while it lives. (std::mutex and its guards are libstdc++'s, which outputs do not link.)
#ifndef HEDDLE_BYTES_MUTEXLOCK_H
#define HEDDLE_BYTES_MUTEXLOCK_H

#include <pthread.h>

namespace heddle {

class MutexLock {
public:
  explicit MutexLock(pthread_mutex_t &mutex) : mutex(mutex) { pthread_mutex_lock(&mutex); }
  ~MutexLock() { pthread_mutex_unlock(&mutex); }
  MutexLock(const MutexLock &) = delete;
  MutexLock &operator=(const MutexLock &) = delete;

private:
  pthread_mutex_t &mutex;
};

} // namespace heddle

#endif
