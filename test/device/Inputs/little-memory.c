// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// little-memory PACKAGE [DEVICE DRIVER]: makes sessions of a package, and steps of them, with an allocator whose n-th block is the first that there is no room for, alone
// or with all that follow, for every n. Each call returns a status, and gives back its blocks and what
// the DRIVER of DEVICE gave, a library of this test, which counts it.
#include "heddle/heddle.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static long blocks, asked, refused = -1; // refused: the block that is, -1: none
static int andAllLater;

static void *take(void *user, size_t size, size_t alignment) {
  long number = asked++;
  if (refused >= 0 && (number == refused || (andAllLater && number > refused)))
    return NULL;
  void *memory = NULL;
  if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size ? size : 1) != 0)
    return NULL;
  ++blocks;
  return memory;
}

static void give(void *user, void *memory) {
  blocks -= memory != NULL;
  free(memory);
}

static void expect(int is, const char *what) {
  if (is)
    return;
  printf("block %ld%s: %s (%s)\n", refused, andAllLater ? " and later" : "", what, heddle_error_message());
  exit(1);
}

// A package of its own: an earlier one may have its device already. Whether there was room.
static int tryBlock(const char *path, const char *device, long number, const long *ofDriver) {
  heddle_package *package = NULL;
  expect(heddle_package_open_file(path, NULL, &package) == HEDDLE_OK, "the package opens");
  long before = blocks;
  heddle_session_options options = {.size = sizeof options, .device = device, .max_sequences = 2};
  heddle_session *session = NULL;
  asked = 0;
  refused = number;
  heddle_status status = heddle_session_create(package, &options, &session);
  refused = -1;
  int hasRoom = asked <= number;
  expect(status == (hasRoom ? HEDDLE_OK : HEDDLE_OUT_OF_MEMORY), "a session, or no memory for it");
  expect(!session == !hasRoom, "a session is given where there is room for it");
  if (!hasRoom) {
    expect(heddle_error_message()[0], "a status has a message");
    status = heddle_session_create(package, &options, &session);
    expect(status == HEDDLE_OK, "with memory, the same package has a session");
  }
  heddle_session_destroy(session);
  expect(blocks >= before, "no block is given back twice");
  heddle_package_close(package);
  expect(blocks == 0, "the blocks are given back");
  expect(!ofDriver || *ofDriver == 0, "the driver's objects are given back");
  return hasRoom;
}

// A step of a session that is there, its device's first. Whether there was room.
static int tryStep(const char *path, const char *device, long number, const long *ofDriver) {
  heddle_package *package = NULL;
  heddle_session *session = NULL;
  heddle_session_options options = {.size = sizeof options, .device = device, .max_sequences = 2};
  expect(heddle_package_open_file(path, NULL, &package) == HEDDLE_OK, "the package opens");
  expect(heddle_session_create(package, &options, &session) == HEDDLE_OK, "the session is made");
  int32_t ids[] = {1, 2, 3};
  heddle_feed feed = {.size = sizeof feed, .ids = ids, .count = 3};
  asked = 0;
  refused = number;
  heddle_status status = heddle_session_step(session, &feed, 1);
  refused = -1;
  int hasRoom = asked <= number;
  expect(status == (hasRoom ? HEDDLE_OK : HEDDLE_OUT_OF_MEMORY), "a step, or no memory for it");
  expect(!hasRoom == !heddle_session_logits(session, 0), "there are logits where there was room");
  expect(hasRoom || heddle_session_step(session, &feed, 1) == HEDDLE_OK, "with memory, the same session goes on");
  heddle_session_destroy(session);
  heddle_package_close(package);
  expect(blocks == 0, "the blocks are given back");
  expect(!ofDriver || *ofDriver == 0, "the driver's objects are given back");
  return hasRoom;
}

int main(int argc, char **argv) {
  heddle_allocator allocator = {sizeof allocator, take, give, NULL};
  expect(argc > 1 && heddle_set_allocator(&allocator) == HEDDLE_OK, "the allocator is taken");
  void *driver = argc > 3 ? dlopen(argv[3], RTLD_NOW) : NULL;
  const long *ofDriver = driver ? dlsym(driver, "driver_objects") : NULL;
  expect(argc == 2 || ofDriver, "the driver counts");
  for (andAllLater = 0; andAllLater < 2; ++andAllLater) {
    long number = 0;
    while (!tryBlock(argv[1], argc > 2 ? argv[2] : NULL, number, ofDriver))
      ++number;
    expect(number > 5, "a session needs memory");
    number = 0;
    while (!tryStep(argv[1], argc > 2 ? argv[2] : NULL, number, ofDriver))
      ++number;
    expect(argc == 2 || number > 0, "the first launches need memory");
  }
  puts("every block was refused once");
  return 0;
}
