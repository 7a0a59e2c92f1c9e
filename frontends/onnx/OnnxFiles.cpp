// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Text.h"
#include "frontends/onnx/OnnxTensors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace heddle {

namespace {

constexpr int openFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;

// Where openat2 is not there or not allowed: one component after the other, none of them a link.
int walkBeneath(int folder, const std::string &location) {
  int at = dup(folder);
  for (size_t begin = 0; at >= 0;) {
    size_t end = location.find('/', begin);
    bool isLast = end == std::string::npos;
    std::string part = location.substr(begin, isLast ? end : end - begin);
    int next = openat(at, part.c_str(), isLast ? openFlags : openFlags | O_DIRECTORY);
    int reason = errno;
    close(at);
    errno = reason;
    if (isLast)
      return next;
    at = next;
    begin = end + 1;
  }
  return at;
}

int openFileBeneath(int folder, const std::string &location) {
  open_how how = {};
  how.flags = openFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long descriptor = syscall(SYS_openat2, folder, location.c_str(), &how, sizeof(how));
  if (descriptor < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL))
    return walkBeneath(folder, location);
  return static_cast<int>(descriptor);
}

// A relative path of plain names.
bool isContained(const std::string &location) {
  if (location.empty() || location.size() > 4096 || location.find('\0') != std::string::npos)
    return false;
  for (size_t begin = 0; begin <= location.size();) {
    size_t end = std::min(location.find('/', begin), location.size());
    std::string part = location.substr(begin, end - begin);
    if (part.empty() || part == "..")
      return false;
    begin = end + 1;
  }
  return true;
}

} // namespace

Expected<std::shared_ptr<MappedFile>> openBeneath(const std::string &modelPath, const std::string &location) {
  std::string quoted = "location '" + printable(location) + "' ";
  if (!isContained(location))
    return invalidInput(quoted +
                        "is not allowed: expected a relative path that stays inside the model's folder, without '..'");
  size_t slash = modelPath.rfind('/');
  std::string folderPath = slash == std::string::npos ? "." : modelPath.substr(0, slash + 1);
  int folder = open(folderPath.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return invalidInput("the model's folder cannot be opened: " + std::string(std::strerror(errno)));
  int descriptor = openFileBeneath(folder, location);
  int reason = errno;
  close(folder);
  if (descriptor < 0 && (reason == ELOOP || reason == EXDEV || reason == ENOTDIR))
    return invalidInput(quoted + "is a link, or leads through one, outside of the model's folder: not allowed");
  if (descriptor < 0)
    return invalidInput(quoted + "cannot be opened: " + std::strerror(reason));
  struct stat status;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    return invalidInput(quoted + "is not a regular file");
  }
  return mapShared(descriptor, (folderPath == "." ? "" : folderPath) + location);
}

} // namespace heddle
