// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/machine/TemporaryFiles.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

using namespace heddle;

TemporaryFiles::~TemporaryFiles() {
  for (const std::string &file : files) {
    (void)llvm::sys::fs::remove(file);
    llvm::sys::DontRemoveFileOnSignal(file);
  }
}

std::error_code TemporaryFiles::add(llvm::StringRef content, std::string &outPath) {
  int descriptor;
  if (std::error_code error = create(outPath, descriptor))
    return error;
  llvm::raw_fd_ostream out(descriptor, /*shouldClose=*/true);
  out << content;
  out.close();
  std::error_code error = out.error();
  out.clear_error();
  return error;
}

// The handler knows each file before it exists, so that no moment is left at which a signal leaves one.
std::error_code TemporaryFiles::create(std::string &outPath, int &outDescriptor) {
  std::error_code error;
  for (int attempt = 0; attempt < 100; ++attempt) {
    llvm::SmallString<128> path;
    llvm::sys::fs::createUniquePath("heddle-%%%%%%%%%%%%", path, /*MakeAbsolute=*/true);
    outPath = path.str().str();
    llvm::sys::RemoveFileOnSignal(outPath);
    error = llvm::sys::fs::openFileForWrite(outPath, outDescriptor, llvm::sys::fs::CD_CreateNew, llvm::sys::fs::OF_None,
                                            0600);
    if (!error) {
      files.push_back(outPath);
      return error;
    }
    llvm::sys::DontRemoveFileOnSignal(outPath); // somebody else's
    if (error != std::errc::file_exists)
      return error;
  }
  return error;
}
