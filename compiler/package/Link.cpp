// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/Link.h"

#include "compiler/package/Elf.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace heddle;

static const char *gnuTriple(const Target &target) { return target.cpu.isAArch64() ? "aarch64-linux-gnu" : "x86_64-linux-gnu"; }

std::string heddle::sysrootFolder(const Target &target) {
  std::string self = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  llvm::SmallString<256> folder(llvm::sys::path::parent_path(llvm::sys::path::parent_path(self)));
  llvm::sys::path::append(folder, "lib", "heddle", gnuTriple(target));
  return folder.str().str();
}

namespace {

// Files of one link, removed when it is over, also by a signal.
class Scratch {
public:
  ~Scratch() {
    for (const std::string &file : files)
      llvm::sys::fs::remove(file);
    if (!folder.empty())
      llvm::sys::fs::remove(folder);
  }
  std::error_code create() {
    llvm::SmallString<128> path;
    std::error_code error = llvm::sys::fs::createUniqueDirectory("heddle", path);
    folder = path.str().str();
    return error;
  }
  // A file of that name in the folder; `content` null: made by somebody else.
  std::error_code add(llvm::StringRef name, const std::string *content, std::string &outPath) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    outPath = path.str().str();
    files.push_back(outPath);
    llvm::sys::RemoveFileOnSignal(outPath);
    if (!content)
      return {};
    std::error_code error;
    llvm::raw_fd_ostream out(outPath, error);
    if (error)
      return error;
    out << *content;
    out.close();
    error = out.error();
    out.clear_error();
    return error;
  }

private:
  std::string folder;
  std::vector<std::string> files;
};

} // namespace

static std::string findLinker() {
  std::string self = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  llvm::StringRef beside = llvm::sys::path::parent_path(self);
  // On the path the name with a version comes first: plain ld.lld may be an older linker that lacks options we pass.
  for (const char *name : {"ld.lld", "ld.lld-22"})
    if (auto found = llvm::sys::findProgramByName(name, beside))
      return *found;
  for (const char *name : {"ld.lld-22", "ld.lld"})
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
  return {};
}

// The command line; `runtime` is the folder of libheddle.a, start files and stand-ins for the C library.
static std::vector<std::string> linkerArguments(LinkKind kind, ArrayRef<std::string> objects, StringRef modelName, const Target &target,
                                                StringRef runtime, StringRef output) {
  bool arm = target.cpu.isAArch64();
  std::string loader = arm ? "ld-linux-aarch64.so.1" : "ld-linux-x86-64.so.2";
  auto file = [&](StringRef name) { return (runtime + "/" + name).str(); };
  std::vector<std::string> arguments = {"ld.lld", "-m", arm ? "aarch64linux" : "elf_x86_64", "-o", output.str()};
  auto add = [&](ArrayRef<std::string> more) { arguments.insert(arguments.end(), more.begin(), more.end()); };
  if (kind == LinkKind::Relocatable) {
    add({"-r", "--force-group-allocation"});
    add(objects);
    return arguments;
  }
  add({"--eh-frame-hdr", "--gc-sections", "-z", "relro", "-z", "now", "-z", "noexecstack", "--as-needed", "--build-id=none"});
  if (kind == LinkKind::Executable)
    add({"-pie", "-dynamic-linker", (arm ? "/lib/" : "/lib64/") + loader, "--defsym=heddle_main_model=heddle_model_" + modelName.str(),
         file("Scrt1.o"), file("crti.o"), file("heddle_main.o")});
  else
    add({"-shared", "-Bsymbolic", file("crti.o")});
  add(objects);
  // Nothing in a model's code calls the runtime: the library's users do.
  if (kind == LinkKind::SharedLibrary)
    add({"--undefined=heddle_package_open"});
  if (kind != LinkKind::Package)
    add({file("libheddle.a")});
  add({file("libgcc.a"), file("libc.so.6"), file("libm.so.6"), file(loader), file("crtn.o")});
  return arguments;
}

// What code for a device is linked with before anything else is.
static const char *const launchObject = "heddle_halide_launch.o";

static FailureOr<std::string> runLinker(LinkKind kind, ArrayRef<std::string> objects, StringRef modelName, const Target &target,
                                        std::string &error) {
  auto fail = [&](const llvm::Twine &message) -> FailureOr<std::string> {
    error = message.str();
    return failure();
  };
  std::string linker = findLinker(), runtime = sysrootFolder(target), output, log;
  if (linker.empty())
    return fail("ld.lld is neither beside the compiler nor on the PATH");
  if (kind != LinkKind::Relocatable && !llvm::sys::fs::exists(runtime + "/libheddle.a"))
    return fail(runtime + "/libheddle.a: the runtime for this target is not installed");
  Scratch scratch;
  std::error_code failed = scratch.create();
  if (failed)
    return fail("cannot make a temporary folder: " + failed.message());
  std::vector<std::string> paths(objects.size());
  for (size_t i = 0; i < objects.size(); ++i)
    if ((failed = scratch.add("object" + std::to_string(i) + ".o", &objects[i], paths[i])))
      return fail(paths[i] + ": " + failed.message());
  (void)scratch.add("linked", nullptr, output);
  (void)scratch.add("log", nullptr, log);
  std::vector<std::string> arguments = linkerArguments(kind, paths, modelName, target, runtime, output);
  SmallVector<StringRef> views(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log), StringRef(log)};
  std::string launchError;
  int code = llvm::sys::ExecuteAndWait(linker, views, std::nullopt, redirects, 0, 0, &launchError);
  auto said = llvm::MemoryBuffer::getFile(log);
  if (code != 0)
    return fail("the linker failed: " + (launchError.empty() && said ? (*said)->getBuffer().split('\n').first.str() : launchError));
  auto linked = llvm::MemoryBuffer::getFile(output, false, false);
  if (!linked)
    return fail(output + ": " + linked.getError().message());
  return (*linked)->getBuffer().str();
}

FailureOr<std::string> heddle::link(LinkKind kind, ArrayRef<std::string> objects, StringRef modelName, const Target &target,
                                    std::string &error) {
  std::vector<std::string> inputs = objects.vec();
  if (target.isDevice()) {
    std::string path = sysrootFolder(target) + "/" + launchObject;
    auto launch = llvm::MemoryBuffer::getFile(path);
    if (!launch) {
      error = path + ": the runtime for this target is not installed";
      return failure();
    }
    inputs.push_back((*launch)->getBuffer().str());
  }
  if (kind == LinkKind::Executable)
    return runLinker(kind, inputs, modelName, target, error);
  // Kernels call each other across objects; once these are one, nobody else sees a kernel's name.
  FailureOr<std::string> merged = runLinker(LinkKind::Relocatable, inputs, modelName, target, error);
  if (succeeded(merged))
    merged = keepOneGlobal(*merged, ("heddle_model_" + modelName).str(), error);
  if (failed(merged) || kind == LinkKind::Relocatable)
    return merged;
  return runLinker(kind, *merged, modelName, target, error);
}
