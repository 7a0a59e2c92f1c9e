/* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * moved ./LIBRARY: loads it by a relative path, goes to another folder and opens the model first in it. */
#include <heddle/heddle.h>

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  void *library = dlopen(argv[argc - 1], RTLD_NOW);
  if (!library || chdir("/") != 0)
    return puts(library ? "chdir failed" : dlerror()), 1;
  const heddle_model *(*model)(void) = (const heddle_model *(*)(void))dlsym(library, "heddle_model_first");
  heddle_status (*open)(const heddle_model *, const heddle_open_options *, heddle_package **) = (heddle_status (*)(
      const heddle_model *, const heddle_open_options *, heddle_package **))dlsym(library, "heddle_package_open");
  const char *(*message)(void) = (const char *(*)(void))dlsym(library, "heddle_error_message");
  heddle_package *package = NULL;
  puts(open(model(), NULL, &package) == HEDDLE_OK ? "opened from another folder" : message());
  return package ? 0 : 1;
}
