// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/WholeFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace heddle {

Status writeWholeFile(const std::string &path, const std::vector<std::string_view> &parts) {
  std::string beside = path + ".part" + std::to_string(getpid());
  FILE *out = fopen(beside.c_str(), "wbe");
  if (!out)
    return failure(beside + ": " + strerror(errno));
  bool ok = true;
  for (std::string_view part : parts)
    ok = ok && (part.empty() || fwrite(part.data(), part.size(), 1, out) == 1);
  ok = fclose(out) == 0 && ok;
  if (ok && rename(beside.c_str(), path.c_str()) == 0)
    return Status();
  int error = errno;
  unlink(beside.c_str());
  return failure(path + ": " + strerror(error));
}

} // namespace heddle
