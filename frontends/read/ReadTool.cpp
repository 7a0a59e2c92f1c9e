// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// heddle-read [--inspect | --json] MODEL: exit code 0 if the readers accept the model, 2 with one line on stderr if
// not.
#include "frontends/read/Inspect.h"
#include "frontends/read/ReadModel.h"

#include <cstdio>
#include <cstring>

int main(int argc, char **argv) {
  bool inspect = argc == 3 && std::strcmp(argv[1], "--inspect") == 0,
       json = argc == 3 && std::strcmp(argv[1], "--json") == 0;
  if (argc != 2 && !inspect && !json) {
    fprintf(stderr, "heddle: error: usage: heddle-read [--inspect | --json] MODEL\n");
    return 2;
  }
  if (inspect || json)
    return heddle::inspectModel(argv[2], json);
  heddle::Expected<heddle::Model> model = heddle::readModel(argv[1]);
  if (model)
    return 0;
  fprintf(stderr, "heddle: error: %s\n", model.message().c_str());
  return 2;
}
