// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a kernel of another processor under emulation. Reads buffers from stdin (count; then each: type code, bits, dimensions,
// bytes, offset of the first element, (min, extent, stride) per dimension, the bytes) and writes their bytes back to stdout.
#include "HalideRuntime.h"

#include <stdio.h>
#include <stdlib.h>

enum { maxBuffers = 8, maxDimensions = 4 };

int kernel(void *, void *, void *, void *, void *, void *, void *, void *);

static int32_t next(void) {
  int32_t value = 0;
  if (fread(&value, sizeof value, 1, stdin) != 1)
    exit(2);
  return value;
}

int main(void) {
  static struct halide_buffer_t buffers[maxBuffers];
  static halide_dimension_t dims[maxBuffers][maxDimensions];
  static uint8_t *bytes[maxBuffers];
  static int32_t sizes[maxBuffers];
  int count = next();
  for (int i = 0; i < count; ++i) {
    buffers[i].type.code = next();
    buffers[i].type.bits = next();
    buffers[i].type.lanes = 1;
    buffers[i].dimensions = next();
    buffers[i].dim = dims[i];
    sizes[i] = next();
    bytes[i] = malloc(sizes[i]);
    buffers[i].host = bytes[i] + next();
    for (int d = 0; d < buffers[i].dimensions; ++d) {
      dims[i][d].min = next();
      dims[i][d].extent = next();
      dims[i][d].stride = next();
    }
    if (fread(bytes[i], 1, sizes[i], stdin) != (size_t)sizes[i])
      return 2;
  }
  // Arguments beyond those of the kernel lie in registers that it does not read.
  if (kernel(&buffers[0], &buffers[1], &buffers[2], &buffers[3], &buffers[4], &buffers[5], &buffers[6], &buffers[7]))
    return 3;
  for (int i = 0; i < count; ++i)
    if (fwrite(bytes[i], 1, sizes[i], stdout) != (size_t)sizes[i])
      return 4;
  return 0;
}
