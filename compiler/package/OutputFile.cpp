// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/OutputFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace heddle;

bool OutputFile::fail(const char *what) {
  message = path + ": cannot " + what + ": " + std::strerror(errno);
  return false;
}

bool OutputFile::isPossible(const std::string &path, std::string &error) {
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  if (!folder.empty() && !llvm::sys::fs::is_directory(folder))
    error = path + ": the folder " + folder.str() + " does not exist";
  else if (llvm::sys::fs::is_directory(path))
    error = path + ": is a directory, expected the name of a file to write";
  else if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path))
    error = path + ": is no regular file, and would be replaced by one"; // a device, a pipe
  else
    return true;
  return false;
}

bool OutputFile::create(const std::string &path, OutputFile &file, std::string &error) {
  file.path = path;
  file.temporary = path + ".tmp" + std::to_string(getpid());
  if (!isPossible(path, error))
    return false;
  llvm::sys::RemoveFileOnSignal(file.temporary);
  file.descriptor = open(file.temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file.descriptor < 0) {
    file.fail("write");
    error = file.message;
    return false;
  }
  return true;
}

OutputFile::~OutputFile() {
  if (descriptor < 0)
    return;
  close(descriptor);
  unlink(temporary.c_str());
  llvm::sys::DontRemoveFileOnSignal(temporary);
}

bool OutputFile::write(uint64_t offset, llvm::ArrayRef<uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t done = pwrite(descriptor, bytes.data(), bytes.size(), offset);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return fail("write");
    bytes = bytes.drop_front(done);
    offset += done;
  }
  return true;
}

bool OutputFile::keep(bool executable) {
  mode_t mask = umask(0);
  umask(mask);
  if (fchmod(descriptor, (executable ? 0777 : 0666) & ~mask))
    return fail("set the mode");
  if (close(std::exchange(descriptor, -1)) || rename(temporary.c_str(), path.c_str())) {
    fail("write");
    unlink(temporary.c_str());
    return false;
  }
  llvm::sys::DontRemoveFileOnSignal(temporary);
  return true;
}
