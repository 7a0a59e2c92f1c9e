// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// main() of a compiled executable: heddle_main.o. The linker binds heddle_main_model to the model's heddle_model_<name>
// (--defsym=heddle_main_model=heddle_model_<name>).
#include "runtime/include/heddle/heddle.h"

extern "C" const heddle_model *heddle_main_model(void);

int main(int argc, char **argv) {
  return heddle_runtime_main(heddle_main_model(), argc, argv);
}
