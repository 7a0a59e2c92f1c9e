// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/execute/ForeignProgram.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace heddle::test;

static constexpr llvm::StringLiteral compilerName = "clang-22", emulatorName = "qemu-aarch64";

std::string heddle::test::missingForAArch64() {
  for (llvm::StringRef tool : {compilerName, emulatorName})
    if (!llvm::sys::findProgramByName(tool))
      return tool.str();
  return {};
}

namespace {

// A file in the temporary folder that goes away with its owner.
struct TemporaryFile {
  explicit TemporaryFile(llvm::StringRef suffix, llvm::StringRef contents = "") {
    int descriptor;
    if (!llvm::sys::fs::createTemporaryFile("foreign", suffix, descriptor, path))
      llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true) << contents;
  }
  ~TemporaryFile() { llvm::sys::fs::remove(path); }
  llvm::SmallString<128> path;
};

} // namespace

// Whether `tool` ends with 0; says so on stderr if not.
static bool runTool(llvm::StringRef tool, llvm::ArrayRef<llvm::StringRef> arguments,
                    llvm::ArrayRef<std::optional<llvm::StringRef>> redirects) {
  auto path = llvm::sys::findProgramByName(tool);
  llvm::SmallVector<llvm::StringRef> words = {tool};
  words.append(arguments.begin(), arguments.end());
  std::string message;
  int status = path ? llvm::sys::ExecuteAndWait(*path, words, std::nullopt, redirects, 0, 0, &message) : -1;
  if (status)
    llvm::errs() << tool << " ended with " << status << ' ' << message << '\n';
  return status == 0;
}

std::optional<std::string> heddle::test::runOnAArch64(const char *driver, const char *includeFolder,
                                                      const std::string &object, const std::string &input) {
  TemporaryFile kernel("o", object), program("exe"), in("in", input), out("out");
  if (!runTool(compilerName,
               {"--target=aarch64-linux-gnu", "-O1", "-static", "-fuse-ld=lld", "-I", includeFolder, driver,
                kernel.path, "-o", program.path},
               {}) ||
      !runTool(emulatorName, {"-cpu", "max", program.path}, {in.path.str(), out.path.str(), std::nullopt}))
    return std::nullopt;
  auto result = llvm::MemoryBuffer::getFile(out.path);
  if (!result)
    return std::nullopt;
  return (*result)->getBuffer().str();
}
