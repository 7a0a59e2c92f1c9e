// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/OutputFile.h"

#include "bytes/WholeFile.h"

#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Signals.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace heddle;

bool OutputFile::fail(const char *what) {
  message = path + ": cannot " + what + ": " + std::strerror(errno);
  return false;
}

bool OutputFile::isPossible(const std::string &path, std::string &error) {
  Status status = checkOutputFile(path);
  error = status.message();
  return status.isOk();
}

bool OutputFile::create(const std::string &path, OutputFile &file, std::string &error) {
  file.path = path;
  Status status = resolveOutput(path, file.target);
  if (status.isOk())
    status = choosePartName(file.target, file.temporary);
  error = status.message();
  if (!status.isOk())
    return false;
  llvm::sys::RemoveFileOnSignal(file.temporary);
  file.descriptor = createPartFile(file.temporary);
  if (file.descriptor < 0) {
    file.fail("write");
    error = file.message;
    return false;
  }
  return true;
}

OutputFile::~OutputFile() {
  if (descriptor >= 0)
    close(descriptor);
  if (temporary.empty())
    return;
  unlink(temporary.c_str());
  llvm::sys::DontRemoveFileOnSignal(temporary);
}

// A huge page. Written at once, and where one begins, the file system keeps it as one, and who maps the file has it as one entry of the TLB.
static constexpr size_t pieceBytes = 2 << 20;

// Bytes from the front that are all zero, in whole blocks of the file system.
static size_t zeroBlocks(llvm::ArrayRef<uint8_t> bytes) {
  constexpr size_t block = 4096;
  static const uint8_t zeros[block] = {};
  size_t size = 0;
  while (bytes.size() - size >= block && !bytes[size] && !std::memcmp(bytes.data() + size, zeros, block))
    size += block;
  return size;
}

bool OutputFile::writePiece(uint64_t offset, llvm::ArrayRef<uint8_t> bytes) {
  while (!bytes.empty()) {
    // Nothing was written here before: what is skipped reads as zeros and takes no room.
    size_t skipped = zeroBlocks(bytes);
    bytes = bytes.drop_front(skipped);
    offset += skipped;
    if (bytes.empty())
      break;
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

bool OutputFile::flush() {
  bool isWritten = writePiece(end - gathered.size(), gathered);
  gathered.clear();
  return isWritten;
}

bool OutputFile::write(uint64_t offset, llvm::ArrayRef<uint8_t> bytes) {
  // Gathered bytes are the file's last; a small gap, which aligns what comes, is zeros like any other.
  uint64_t pieceEnd = llvm::alignTo(end + 1, pieceBytes);
  if (gathered.empty() || offset < end || offset >= pieceEnd) {
    if (!flush())
      return false;
  } else {
    gathered.resize(gathered.size() + offset - end);
    end = offset;
  }
  while (!bytes.empty()) {
    llvm::ArrayRef<uint8_t> piece = bytes.take_front(pieceBytes - offset % pieceBytes);
    bool isWhole = (offset + piece.size()) % pieceBytes == 0;
    // What lies before the end, a header, is written as it comes.
    if (gathered.empty() && (isWhole || offset < end)) {
      if (!writePiece(offset, piece))
        return false;
      end = std::max(end, offset + piece.size());
    } else {
      gathered.insert(gathered.end(), piece.begin(), piece.end());
      end = offset + piece.size();
      if (isWhole && !flush())
        return false;
    }
    bytes = bytes.drop_front(piece.size());
    offset += piece.size();
  }
  return true;
}

bool OutputFile::finish(bool executable) {
  if (descriptor < 0)
    return true;
  if (!flush())
    return false;
  if (ftruncate(descriptor, end)) // also where it ends in zeros that were skipped
    return fail("write");
  mode_t mask = umask(0);
  umask(mask);
  if (fchmod(descriptor, (executable ? 0777 : 0666) & ~mask))
    return fail("set the mode");
  return close(std::exchange(descriptor, -1)) == 0 || fail("write");
}

bool OutputFile::publish() {
  if (rename(temporary.c_str(), target.c_str()))
    return fail("write");
  llvm::sys::DontRemoveFileOnSignal(temporary);
  temporary.clear();
  return true;
}

bool OutputFile::keep(bool executable) {
  return finish(executable) && publish();
}

namespace {

// Signals that end a process wait while this lives.
class SignalsHeld {
public:
  SignalsHeld() {
    sigset_t held;
    sigemptyset(&held);
    for (int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM})
      sigaddset(&held, signal);
    pthread_sigmask(SIG_BLOCK, &held, &before);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

private:
  sigset_t before;
};

} // namespace

bool OutputFile::keepWith(OutputFile &companion, bool executable) {
  bool finished = companion.finish(false) && finish(executable);
  SignalsHeld held;
  std::string previous = companion.temporary + ".previous";
  bool hadPrevious = finished && rename(companion.target.c_str(), previous.c_str()) == 0;
  bool published = finished && companion.publish();
  if (published && publish()) {
    if (hadPrevious)
      unlink(previous.c_str());
    return true;
  }
  if (message.empty())
    message = companion.message;
  if (hadPrevious)
    rename(previous.c_str(), companion.target.c_str());
  else if (published)
    unlink(companion.target.c_str());
  return false;
}
