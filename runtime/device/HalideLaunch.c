// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What Halide's ahead-of-time code for a device calls, instead of Halide's own runtime: memory is placed by the session, so that
// only launches are left, and those go to the device of the step, which comes as user_context. Linked into outputs that have a
// device; local to them.
#include "runtime/model/ModelAbi.h"

#include <stddef.h>

// The head of struct halide_buffer_t (Halide 21, HalideRuntime.h): what a launch reads of it. A device address is its handle.
struct buffer {
  uint64_t device;
};

// The code is a constant of the object: its address says which it is.
static int initializeKernels(void **state, const char *code) {
  *state = (void *)code;
  return 0;
}

static int run(void *user_context, void *state, const char *entry, const uint32_t blocks[3], const uint32_t threads[3],
               int shared_bytes, const size_t *sizes, void **arguments, const int8_t *is_buffer) {
  heddle_device *device = user_context;
  uint32_t count = 0;
  // No rows: nothing to do, and no grid that a driver takes.
  if (!blocks[0] || !blocks[1] || !blocks[2])
    return 0;
  while (sizes[count])
    ++count;
  void *values[count + 1];
  size_t value_sizes[count + 1];
  for (uint32_t i = 0; i < count; ++i) {
    values[i] = is_buffer[i] ? &((struct buffer *)arguments[i])->device : arguments[i];
    value_sizes[i] = is_buffer[i] ? 0 : sizes[i];
  }
  const heddle_launch launch = {state,
                                entry,
                                {blocks[0], blocks[1], blocks[2]},
                                {threads[0], threads[1], threads[2]},
                                (uint32_t)shared_bytes,
                                count,
                                values,
                                value_sizes};
  device->launch(device, &launch);
  return 0;
}

#define DEFINE_API(api)                                                                                                \
  int halide_##api##_initialize_kernels(void *user_context, void **state, const char *code, int size) {                \
    (void)user_context, (void)size;                                                                                    \
    return initializeKernels(state, code);                                                                             \
  }                                                                                                                    \
  void halide_##api##_finalize_kernels(void *user_context, void *state) {                                              \
    (void)user_context, (void)state;                                                                                   \
  }                                                                                                                    \
  int halide_##api##_run(void *user_context, void *state, const char *entry, int bx, int by, int bz, int tx, int ty,   \
                         int tz, int shared_bytes, size_t *sizes, void **arguments, int8_t *is_buffer) {               \
    const uint32_t blocks[] = {bx, by, bz}, threads[] = {tx, ty, tz};                                                  \
    return run(user_context, state, entry, blocks, threads, shared_bytes, sizes, arguments, is_buffer);                \
  }                                                                                                                    \
  const void *halide_##api##_device_interface(void) {                                                                  \
    return NULL;                                                                                                       \
  }

DEFINE_API(opencl)
DEFINE_API(cuda)

// Every buffer is on the device.
int halide_copy_to_device(void *user_context, void *buffer, const void *interface) {
  (void)user_context, (void)buffer, (void)interface;
  return 0;
}
