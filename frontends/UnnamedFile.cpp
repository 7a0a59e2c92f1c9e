// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file lies on a disk where there is one ($TMPDIR), so that what is larger than the memory can be written: packing reads it once, as it
// does the model's own files.
#include "frontends/UnnamedFile.h"

#include "bytes/HalfFloats.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace heddle {

bool storeNumbers(TensorType type, const float *numbers, size_t count, uint8_t *out) {
  bool fits = true;
  for (size_t i = 0; i < count; ++i) {
    fits &= std::isfinite(numbers[i]);
    if (type == TensorType::F32) {
      memcpy(out + 4 * i, numbers + i, 4);
      continue;
    }
    uint16_t half = type == TensorType::F16 ? floatToHalf(numbers[i]) : floatToBfloat(numbers[i]);
    fits &= type == TensorType::F16 ? (half & 0x7c00) != 0x7c00 : (half & 0x7f80) != 0x7f80;
    memcpy(out + 2 * i, &half, 2);
  }
  return fits;
}

UnnamedFile::~UnnamedFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status UnnamedFile::failed() const {
  return Status::failure(path + ": " + strerror(errno));
}

Status UnnamedFile::open() {
  if (descriptor >= 0)
    return Status();
  const char *folder = getenv("TMPDIR");
  descriptor = ::open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0)
    descriptor = memfd_create("weights", MFD_CLOEXEC);
  return descriptor < 0 ? failed() : Status();
}

static bool writeAt(int descriptor, const std::vector<uint8_t> &bytes, uint64_t offset) {
  for (size_t done = 0; done < bytes.size();) {
    ssize_t count = pwrite(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno != EINTR)
      return false;
    done += count > 0 ? static_cast<size_t>(count) : 0;
  }
  return true;
}

// Runs of rows go to whichever thread is free; a row depends on nothing but itself.
Status UnnamedFile::add(int64_t rows, int64_t width, uint64_t rowBytes, const FillRows &fill, uint64_t &outOffset) {
  constexpr uint64_t alignment = 64;
  constexpr int64_t pieceNumbers = 1 << 20;
  HEDDLE_RETURN_IF_ERROR(open());
  uint64_t begin = end;
  int64_t perPiece = std::max<int64_t>(1, pieceNumbers / std::max<int64_t>(width, 1));
  int64_t pieces = (rows + perPiece - 1) / perPiece;
  std::atomic<int64_t> next{0};
  std::atomic<int> writeError{0};
  auto work = [&] {
    std::vector<uint8_t> bytes;
    for (int64_t piece; (piece = next++) < pieces && !writeError;) {
      int64_t first = piece * perPiece, last = std::min(rows, first + perPiece);
      bytes.resize(static_cast<uint64_t>(last - first) * rowBytes);
      fill(first, last, bytes.data());
      if (!writeAt(descriptor, bytes, begin + static_cast<uint64_t>(first) * rowBytes))
        writeError = errno;
    }
  };
  int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < std::min(cores, pieces); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  if (writeError) {
    errno = writeError;
    return failed();
  }
  outOffset = begin;
  end = (begin + static_cast<uint64_t>(rows) * rowBytes + alignment - 1) / alignment * alignment;
  return Status();
}

Status UnnamedFile::addTo(Checkpoint &checkpoint) {
  HEDDLE_RETURN_IF_ERROR(open());
  if (ftruncate(descriptor, static_cast<off_t>(end)) != 0)
    return failed();
  int taken = descriptor;
  descriptor = -1;
  Expected<std::shared_ptr<MappedFile>> mapped = mapShared(taken, path);
  if (!mapped)
    return mapped.status();
  checkpoint.files.push_back(std::move(*mapped));
  return Status();
}

} // namespace heddle
