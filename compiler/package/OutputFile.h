// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file that appears under its name only when it is whole.
#ifndef HEDDLE_COMPILER_PACKAGE_OUTPUTFILE_H
#define HEDDLE_COMPILER_PACKAGE_OUTPUTFILE_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

class OutputFile {
public:
  // Whether a file of that name can be made: asked before long work, answered with one line in `error` where not.
  static bool isPossible(const std::string &path, std::string &error);
  // Opens a temporary file beside the one that `path` names or leads to (bytes/WholeFile.h); removed on destruction or by a signal unless
  // kept.
  static bool create(const std::string &path, OutputFile &outFile, std::string &error);
  OutputFile() = default;
  OutputFile(const OutputFile &) = delete;
  ~OutputFile();

  bool isOpen() const { return !temporary.empty(); } // has bytes, and no name yet
  // Each place is written once: blocks of zeros are left out, so that they take no room on the disk. What comes in order is gathered to
  // pieces of a huge page.
  bool write(uint64_t offset, llvm::ArrayRef<uint8_t> bytes);
  bool write(uint64_t offset, const std::string &bytes) {
    return write(offset, llvm::ArrayRef(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()));
  }
  // Writes what is gathered: after it, a disk that is full has said so.
  bool flush();
  // All bytes, and the mode (0755 if executable); the name stays temporary. What fails behind it is a rename.
  bool finish(bool executable);
  // Finishes the file unless that is done, gives it its name and forgets it.
  bool keep(bool executable);
  // Keeps this file and `companion`, which belongs to it, or neither: on failure the previous file stands under both names. No
  // signal comes between; a machine that dies there leaves a companion that does not fit, which loading says.
  bool keepWith(OutputFile &companion, bool executable);
  // One line about the last failure.
  const std::string &error() const { return message; }

private:
  bool fail(const char *what);
  bool writePiece(uint64_t offset, llvm::ArrayRef<uint8_t> bytes);
  bool publish();

  int descriptor = -1;
  uint64_t end = 0; // of the file, with what is gathered
  std::vector<uint8_t> gathered;
  std::string path, message;
  std::string target;    // where the links of `path` lead
  std::string temporary; // the name until `target` is its name
};

} // namespace heddle

#endif
