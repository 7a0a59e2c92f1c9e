// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An OpenCL of two devices, a CPU and a GPU, that computes nothing and fails where the variable FAKE_OPENCL says: it
// stands for the drivers that a test machine has not. A program's binary is its source behind a word; $FAKE_OPENCL_LOG
// gets a line for each program that is made, and $FAKE_OPENCL_VERSION is the driver's version.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef intptr_t handle;

static int fails(const char *where) {
  const char *wanted = getenv("FAKE_OPENCL");
  return wanted && strcmp(wanted, where) == 0;
}

long driver_objects; // contexts, queues and memory that were given and are not back

enum { platform = 1, gpu = 2, cpu = 3, other = 4 };

int32_t clGetPlatformIDs(uint32_t capacity, handle *out, uint32_t *count) {
  if (out && capacity)
    *out = platform;
  if (count)
    *count = 1;
  return fails("platforms") ? -1001 : 0;
}

int32_t clGetDeviceIDs(handle of, uint64_t type, uint32_t capacity, handle *out, uint32_t *count) {
  if (fails("devices"))
    return -1;
  if (out && capacity)
    *out = type & 4 ? gpu : cpu;
  if (count)
    *count = 1;
  return 0;
}

static int32_t text(const char *value, size_t capacity, void *out, size_t *size) {
  if (size)
    *size = strlen(value) + 1;
  if (out && capacity)
    strncpy(out, value, capacity);
  return 0;
}

int32_t clGetPlatformInfo(handle of, uint32_t property, size_t capacity, void *out, size_t *size) {
  return of == platform ? text(property == 0x0902 ? "Mill" : "OpenCL 3.0", capacity, out, size) : -32;
}

int32_t clGetDeviceInfo(handle device, uint32_t property, size_t capacity, void *out, size_t *size) {
  if (property == 0x102B) // name
    return text(device == gpu ? "Loom 9000" : "Spindle", capacity, out, size);
  if (property == 0x102D) // driver's version
    return text(getenv("FAKE_OPENCL_VERSION") ? getenv("FAKE_OPENCL_VERSION") : "1.2.3", capacity, out, size);
  if (property == 0x102C || property == 0x102F) // vendor, version
    return text("OpenCL 3.0 Weavers", capacity, out, size);
  uint64_t value = property == 0x1031 ? platform : 0;
  if (property == 0x1010) // largest allocation
    value = fails("largest") ? 65536 : (uint64_t)1 << 40;
  if (property == 0x1004) // largest work-group
    value = fails("threads") ? 64 : 256;
  if (property == 0x1023) // local memory
    value = 32 << 10;
  if (property == 0x1053) // shared virtual memory
    value = !fails("svm");
  memcpy(out, &value, capacity < 8 ? capacity : 8);
  return 0;
}

handle clCreateContext(const void *properties, uint32_t count, const handle *devices, void *callback, void *user,
                       int32_t *code) {
  *code = fails("context") ? -6 : 0;
  driver_objects += !*code;
  return *code ? 0 : other;
}

handle clCreateCommandQueueWithProperties(handle context, handle device, const uint64_t *properties, int32_t *code) {
  *code = fails("queue") ? -6 : 0;
  driver_objects += !*code;
  return *code ? 0 : other;
}

void *clSVMAlloc(handle context, uint64_t flags, size_t size, uint32_t alignment) {
  if (fails("memory"))
    return NULL;
  size_t whole = (size + alignment - 1) / alignment * alignment;
  void *memory = aligned_alloc(alignment, whole);
  driver_objects += memory != NULL;
  return memory ? memset(memory, 0, whole) : NULL; // numbers, as no kernel writes any
}

void clSVMFree(handle context, void *memory) {
  --driver_objects;
  free(memory);
}

int32_t clEnqueueSVMMemcpy(handle queue, uint32_t wait, void *to, const void *from, size_t size, uint32_t count,
                           const void *list, void *event) {
  if (fails("transfer"))
    return -5;
  memcpy(to, from, size);
  return 0;
}

static void record(const char *what) {
  const char *path = getenv("FAKE_OPENCL_LOG");
  FILE *log = path ? fopen(path, "a") : NULL;
  if (!log)
    return;
  fprintf(log, "%s\n", what);
  fclose(log);
}

static const char woven[] = "woven";

// A program is the number of bytes of its source; what a driver keeps of it is left out.
handle clCreateProgramWithSource(handle context, uint32_t count, const char **sources, const size_t *lengths,
                                 int32_t *code) {
  record("source");
  *code = 0;
  return (handle)strlen(sources[0]);
}

handle clCreateProgramWithBinary(handle context, uint32_t count, const handle *devices, const size_t *lengths,
                                 const unsigned char **binaries, int32_t *status, int32_t *code) {
  int isGood = !fails("binary") && lengths[0] > sizeof woven && memcmp(binaries[0], woven, sizeof woven) == 0;
  record(isGood ? "binary" : "refused binary");
  *code = *status = isGood ? 0 : -42;
  return isGood ? (handle)(lengths[0] - sizeof woven) : 0;
}

int32_t clGetProgramInfo(handle program, uint32_t property, size_t capacity, void *out, size_t *size) {
  if (fails("no binaries"))
    return -30;
  if (property == 0x1165) {
    *(size_t *)out = (size_t)program + sizeof woven;
    return 0;
  }
  unsigned char *to = *(unsigned char **)out;
  memcpy(to, woven, sizeof woven);
  memset(to + sizeof woven, 'w', (size_t)program);
  return 0;
}

int32_t clBuildProgram(handle program, uint32_t count, const handle *devices, const char *options, void *callback,
                       void *user) {
  return fails("build") ? -11 : 0;
}

int32_t clGetProgramBuildInfo(handle program, handle device, uint32_t property, size_t capacity, void *out,
                              size_t *size) {
  return text("line 3: warp expected\nline 4: weft found\n", capacity, out, size);
}

handle clCreateKernel(handle program, const char *name, int32_t *code) {
  *code = fails("kernel") ? -46 : 0;
  return *code ? 0 : other;
}

int32_t clSetKernelArg(handle kernel, uint32_t index, size_t size, const void *value) {
  return fails("argument") ? -51 : 0;
}
int32_t clSetKernelArgSVMPointer(handle kernel, uint32_t index, const void *value) {
  return 0;
}

int32_t clEnqueueNDRangeKernel(handle queue, handle kernel, uint32_t rank, const size_t *offset, const size_t *global,
                               const size_t *local, uint32_t count, const void *list, void *event) {
  return fails("launch") ? -54 : 0;
}

int32_t clFlush(handle queue) {
  return 0;
}
int32_t clFinish(handle queue) {
  return fails("finish") ? -36 : 0;
}
int32_t clReleaseContext(handle context) {
  --driver_objects;
  return 0;
}
int32_t clReleaseCommandQueue(handle queue) {
  --driver_objects;
  return 0;
}
int32_t clReleaseProgram(handle program) {
  return 0;
}
int32_t clReleaseKernel(handle kernel) {
  return 0;
}
