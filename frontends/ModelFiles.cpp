// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A name is first resolved as the system does it, the result is compared with the folders that files may lie in, and what is then opened is
// that result, with no link on its way: a link that is put there in between leads nowhere.
#include "frontends/ModelFiles.h"

#include "frontends/Checkpoint.h"
#include "frontends/CompanionFiles.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace heddle {

// The absolute path without links; "" with errno set where it leads to nothing.
static std::string resolved(const std::string &path) {
  char *real = realpath(path.c_str(), nullptr);
  std::string text = real ? real : "";
  free(real);
  return text;
}

// With its '/'; "" of "".
static std::string folderOf(const std::string &path) {
  return path.substr(0, path.rfind('/') + 1);
}

// Fails with ELOOP where something on the way is a link.
static int openWithoutLinks(const std::string &real) {
  constexpr int flags =
      O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW; // not blocking: a pipe would wait for its writer
  open_how how = {};
  how.flags = flags;
  how.resolve = RESOLVE_NO_SYMLINKS;
  long descriptor = syscall(SYS_openat2, AT_FDCWD, real.c_str(), &how, sizeof(how));
  bool isUnknown = descriptor < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL);
  return isUnknown ? ::open(real.c_str(), flags) : static_cast<int>(descriptor);
}

bool isPathBelow(const std::string &name) {
  if (name.empty() || name.size() > 4096 || name.find('\0') != std::string::npos)
    return false;
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('/', begin), name.size());
    std::string part = name.substr(begin, end - begin);
    if (part.empty() || part == "..")
      return false;
    begin = end + 1;
  }
  return true;
}

ModelFiles::ModelFiles(std::string model) : modelPath(std::move(model)) {
  struct stat status;
  hasModel = stat(modelPath.c_str(), &status) == 0;
  hasFolder = hasModel && S_ISDIR(status.st_mode);
  bool endsInSlash = !modelPath.empty() && modelPath.back() == '/';
  prefix = !hasFolder ? folderOf(modelPath) : modelPath + (endsInSlash ? "" : "/");
  realFolder = resolved(prefix.empty() ? "." : prefix);
  if (!realFolder.empty() && realFolder.back() != '/')
    realFolder += '/';
  std::string own = modelPath;
  if (hasFolder) {
    // A folder of a tokenizer alone has no config.json.
    std::vector<std::string> companions = companionFiles(modelPath);
    own = pathOf(has("config.json") || companions.empty() ? "config.json" : companions.front());
  }
  realHome = folderOf(resolved(own));
}

bool ModelFiles::has(const std::string &name) const {
  struct stat status;
  return stat(pathOf(name).c_str(), &status) == 0;
}

Expected<SharedFile> ModelFiles::open() {
  SharedFile &known = files[modelPath];
  if (!known) {
    Expected<SharedFile> file = openShared(modelPath);
    if (!file) {
      files.erase(modelPath);
      return file;
    }
    known = *file;
  }
  return known;
}

// `real` is where `path` leads to.
Status ModelFiles::checkPlace(const std::string &path, const std::string &real) const {
  // The folder itself is within: it is refused as a folder.
  bool isInFolder = !realFolder.empty() && (real + "/").compare(0, realFolder.size(), realFolder) == 0;
  if (isInFolder || (!realHome.empty() && folderOf(real) == realHome))
    return Status();
  return errorIn(path, "is, or lies behind, a symbolic link that leads to '" + printable(real, 1024) +
                           "', outside of the model's folder: not allowed");
}

Expected<SharedFile> ModelFiles::openBelow(const std::string &name, bool isRaw) {
  std::string path = pathOf(name);
  if (!isPathBelow(name))
    return errorIn(path, "is not allowed: expected a relative path that stays inside the model's folder, without '..'");
  if (auto known = files.find(path); known != files.end())
    return known->second;
  std::string real = resolved(path);
  if (real.empty())
    return errorIn(path, std::string("cannot be opened: ") + strerror(errno)).as(StatusCode::Unreadable);
  HEDDLE_RETURN_IF_ERROR(checkPlace(path, real));
  int descriptor = openWithoutLinks(real);
  if (descriptor < 0)
    return errorIn(path, std::string("cannot be opened: ") + strerror(errno)).as(StatusCode::Unreadable);
  struct stat status;
  if (isRaw && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink > 1) {
    ::close(descriptor);
    return errorIn(path, "has " + std::to_string(status.st_nlink) +
                             " hard links, expected 1: it may be a file from outside of the model's folder; copy it");
  }
  Expected<SharedFile> file = mapShared(descriptor, path);
  if (file)
    files.emplace(path, *file);
  return file;
}

Expected<SharedFile> ModelFiles::open(const std::string &name) {
  return openBelow(name, /*isRaw=*/false);
}

Expected<SharedFile> ModelFiles::openRaw(const std::string &name) {
  return openBelow(name, /*isRaw=*/true);
}

std::vector<SharedFile> ModelFiles::opened() const {
  std::vector<SharedFile> all;
  all.reserve(files.size());
  for (const auto &[path, file] : files)
    all.push_back(file);
  return all;
}

} // namespace heddle
