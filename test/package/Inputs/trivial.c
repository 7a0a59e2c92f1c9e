// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Uses what the runtime uses of the C library: threads, thread-local storage, libm, dlopen, stdio.
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>

static _Thread_local int calls;

static void *raise(void *value) {
  ++calls;
  *(double *)value = exp(*(double *)value) + calls;
  return NULL;
}

int main(void) {
  pthread_t thread;
  double value = 0.0;
  if (pthread_create(&thread, NULL, raise, &value) != 0 || pthread_join(thread, NULL) != 0)
    return 1;
  if (dlopen("no-such-library.so", RTLD_NOW))
    return 1;
  __int128 product = (__int128)(value * 1e18) * 1000;
  printf("exp(0) + 1 = %.1f, %d\n", value, (int)(product / 1000000000000000000));
  return 0;
}
