// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// heddle-peaks [THREADS]: the limits of this machine, as BIN --profile measures them, in one JSON object: bytes per second that the threads
// read from memory, operations per second of each kind of multiply-add that the CPU has.
#include "runtime/cli/Peaks.h"
#include "runtime/cli/Bandwidth.h"

#include <cstdio>
#include <cstdlib>

using namespace heddle;

int main(int argc, char **argv) {
  std::unique_ptr<ThreadPool> pool;
  Status status = ThreadPool::create(argc > 1 ? int32_t(std::strtol(argv[1], nullptr, 10)) : 0, pool);
  if (!status.isOk())
    return std::fprintf(stderr, "heddle-peaks: %s\n", status.message().c_str()), 2;
  std::printf("{\"threads\": %d, \"read_bandwidth\": %.0f", pool->size(), measureReadBandwidth(*pool, 5));
  for (const Peak &peak : measurePeaks(*pool, 5))
    std::printf(", \"%s\": %.0f", peak.name, peak.perSecond);
  std::printf("}\n");
}
