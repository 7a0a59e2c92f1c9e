// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// heddle-read [--inspect | --json | --mmproj=FILE] MODEL: exit code 0 if the readers accept the model, 2 with one line on stderr if
// not.
#include "frontends/read/Inspect.h"
#include "frontends/read/ReadModel.h"

#include <cstdio>
#include <cstring>

int main(int argc, char **argv) {
  bool inspect = argc == 3 && std::strcmp(argv[1], "--inspect") == 0,
       json = argc == 3 && std::strcmp(argv[1], "--json") == 0;
  constexpr const char mmproj[] = "--mmproj=";
  bool sees = argc == 3 && std::strncmp(argv[1], mmproj, sizeof mmproj - 1) == 0;
  if (argc != 2 && !inspect && !json && !sees) {
    fprintf(stderr, "heddle: error: usage: heddle-read [--inspect | --json | --mmproj=FILE] MODEL\n");
    return 2;
  }
  if (inspect || json)
    return heddle::inspectModel(argv[2], json);
  heddle::ModelFiles files(argv[argc - 1]), seeing(sees ? argv[1] + sizeof mmproj - 1 : "");
  heddle::Expected<heddle::Model> model = sees ? heddle::readModelWithImages(files, seeing) : heddle::readModel(files);
  if (model)
    return 0;
  fprintf(stderr, "heddle: error: %s\n", model.message().c_str());
  return 2;
}
