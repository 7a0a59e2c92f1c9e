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
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace heddle {
namespace {

Status cannot(const std::string &path) {
  return Status::failure(path + ": " + strerror(errno));
}

// Of a name whose file is not there: the one that its links, if it is one, end in.
Status followLinks(std::string &path) {
  char target[4096];
  for (int links = 0; links < 40; ++links) {
    ssize_t length = readlink(path.c_str(), target, sizeof target);
    if (length < 0)
      return Status();
    if (size_t(length) == sizeof target)
      break;
    std::string next(target, size_t(length));
    if (next[0] == '/')
      path.clear();
    path.erase(path.find_last_of('/') + 1).append(next);
  }
  errno = ELOOP;
  return cannot(path);
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
  size_t size = 0;
  // Each byte of a block of zeros is the one behind it.
  while (bytes.size() - size >= block && !bytes[size] &&
         !memcmp(bytes.data() + size, bytes.data() + size + 1, block - 1))
    size += block;
  return size;
}

// A file beside `path` that is removed unless it gets that name: on destruction, and by signals that end the process.
class PartFile {
public:
  explicit PartFile(const std::string &path) : path(path) {}
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
    HEDDLE_RETURN_IF_ERROR(choosePartName(path, name));
    if (name.size() >= sizeof partName)
      return invalidInput(path + ": the name is too long");
    memcpy(partName, name.c_str(), name.size() + 1);
    handleSignals();
    int descriptor = createPartFile(name);
    if (descriptor < 0)
      return cannot(path);
    file = fdopen(descriptor, "wb");
    return file ? Status() : cannot(path);
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

  const std::string path;
  std::string name;
  FILE *file = nullptr;
  uint64_t size = 0;
  bool isHandling = false;
  struct sigaction previous[std::size(endingSignals)];
};

} // namespace

Status resolveOutput(const std::string &path, std::string &outPath) {
  outPath = path;
  struct stat found;
  if (stat(path.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode))
      return invalidInput(path + ": is a directory, expected the name of a file to write");
    if (!S_ISREG(found.st_mode))
      return invalidInput(path + ": is no regular file, and would be replaced by one");
    if (lstat(path.c_str(), &found) != 0 || !S_ISLNK(found.st_mode))
      return Status();
    char *target = realpath(path.c_str(), nullptr);
    if (!target)
      return cannot(path);
    outPath = target;
    free(target);
    return Status();
  }
  if (errno != ENOENT)
    return invalidInput(path + ": " + strerror(errno));
  if (path.empty() || path.back() == '/')
    return invalidInput("'" + path + "': the name of a file to write is expected");
  HEDDLE_RETURN_IF_ERROR(followLinks(outPath));
  std::string folder = outPath.substr(0, outPath.find_last_of('/') + 1);
  if (folder.empty() || stat(folder.c_str(), &found) == 0)
    return Status();
  if (folder.size() > 1)
    folder.pop_back();
  return invalidInput(path + ": the folder " + folder + " does not exist");
}

Status checkOutputFile(const std::string &path) {
  std::string resolved;
  return resolveOutput(path, resolved);
}

Status choosePartName(const std::string &path, std::string &outName) {
  uint8_t random[8];
  if (syscall(SYS_getrandom, random, sizeof random, 0) != long(sizeof random))
    return cannot(path);
  outName = path + ".part" + hexadecimal(random, sizeof random);
  return Status();
}

int createPartFile(const std::string &name) {
  return open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
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
