// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "bytes/WholeFile.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace heddle {
namespace {

Status cannot(const std::string &path) {
  return Status::failure(path + ": " + strerror(errno));
}

// The name that the links of `path`, if it is one, lead to, once a file of that name can be made.
Status resolveOutput(const std::string &path, std::string &outPath) {
  outPath = path;
  struct stat found;
  if (lstat(path.c_str(), &found) != 0) {
    std::string folder = path.substr(0, path.find_last_of('/') + 1);
    if (errno == ENOENT && (folder.empty() || stat(folder.c_str(), &found) == 0))
      return path.empty() || path.back() == '/'
                 ? invalidInput("'" + path + "': the name of a file to write is expected")
                 : Status();
    return invalidInput(path + ": " + strerror(errno));
  }
  if (S_ISLNK(found.st_mode)) {
    char *target = realpath(path.c_str(), nullptr);
    if (!target)
      return invalidInput(path + ": the link leads to no file: " + strerror(errno));
    outPath = target;
    free(target);
    if (stat(outPath.c_str(), &found) != 0)
      return cannot(outPath);
  }
  if (S_ISDIR(found.st_mode))
    return invalidInput(path + ": is a directory, expected the name of a file to write");
  if (!S_ISREG(found.st_mode))
    return invalidInput(path + ": is no regular file, and would be replaced by one");
  return Status();
}

constexpr int endingSignals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
char partName[4096]; // of the file being written; what a handler may read

void removePart(int number) {
  unlink(partName);
  signal(number, SIG_DFL);
  raise(number);
}

// What is looked through for zeros, then written.
constexpr size_t pieceBytes = 1 << 20;

// Bytes from the front that are all zero, in whole blocks of the file system.
size_t zeroBlocks(std::string_view bytes) {
  constexpr size_t block = 4096;
  static const char zeros[block] = {};
  size_t size = 0;
  while (bytes.size() - size >= block && !bytes[size] && !memcmp(bytes.data() + size, zeros, block))
    size += block;
  return size;
}

// A file beside `path` that is removed unless it gets that name: on destruction, and by signals that end the process.
class PartFile {
public:
  explicit PartFile(const std::string &path) : path(path), name(path + ".part" + std::to_string(getpid())) {}
  PartFile(const PartFile &) = delete;
  ~PartFile() {
    if (!isHandling)
      return;
    if (file)
      fclose(file);
    unlink(name.c_str());
    for (size_t i = 0; i < std::size(endingSignals); ++i)
      sigaction(endingSignals[i], &previous[i], nullptr);
  }

  Status open() {
    if (name.size() >= sizeof partName)
      return invalidInput(path + ": the name is too long");
    memcpy(partName, name.c_str(), name.size() + 1);
    handleSignals();
    unlink(partName); // of a process that had our number
    int descriptor = ::open(partName, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0)
      return cannot(name);
    file = fdopen(descriptor, "wb");
    return file ? Status() : cannot(name);
  }

  // Blocks of zeros are left out, so that they take no room on the disk.
  Status write(std::string_view part) {
    size += part.size();
    while (!part.empty()) {
      size_t skipped = zeroBlocks(part);
      if (skipped && fseeko(file, off_t(skipped), SEEK_CUR) != 0)
        return cannot(path);
      part.remove_prefix(skipped);
      std::string_view piece = part.substr(0, pieceBytes);
      if (!piece.empty() && fwrite(piece.data(), piece.size(), 1, file) != 1)
        return cannot(path);
      part.remove_prefix(piece.size());
    }
    return Status();
  }

  Status keep() {
    // Also where it ends in zeros that were left out.
    bool isWhole = fflush(file) == 0 && ftruncate(fileno(file), off_t(size)) == 0;
    isWhole &= fclose(std::exchange(file, nullptr)) == 0;
    return isWhole && rename(name.c_str(), path.c_str()) == 0 ? Status() : cannot(path);
  }

private:
  // What the program ignores, it goes on ignoring.
  void handleSignals() {
    struct sigaction removing = {};
    removing.sa_handler = removePart;
    for (size_t i = 0; i < std::size(endingSignals); ++i) {
      sigaction(endingSignals[i], nullptr, &previous[i]);
      if (previous[i].sa_handler != SIG_IGN)
        sigaction(endingSignals[i], &removing, nullptr);
    }
    isHandling = true;
  }

  const std::string path, name;
  FILE *file = nullptr;
  uint64_t size = 0;
  bool isHandling = false;
  struct sigaction previous[std::size(endingSignals)];
};

} // namespace

Status checkOutputFile(const std::string &path) {
  std::string resolved;
  return resolveOutput(path, resolved);
}

Status writeWholeFile(const std::string &path, const std::vector<std::string_view> &parts) {
  std::string resolved;
  HEDDLE_RETURN_IF_ERROR(resolveOutput(path, resolved));
  PartFile file(resolved);
  HEDDLE_RETURN_IF_ERROR(file.open());
  for (std::string_view part : parts)
    HEDDLE_RETURN_IF_ERROR(file.write(part));
  return file.keep();
}

} // namespace heddle
