// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/Link.h"

#include "compiler/codegen/machine/TemporaryFiles.h"
#include "compiler/package/Elf.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace heddle;

static const char *gnuTriple(const Target &target) {
  return target.cpu.isAArch64() ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
}

// lib/heddle/NAME of the folder that bin/ with the compiler lies in, wherever that is.
static std::string ownFolder(llvm::StringRef name) {
  std::string self = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  llvm::SmallString<256> folder(llvm::sys::path::parent_path(llvm::sys::path::parent_path(self)));
  llvm::sys::path::append(folder, "lib", "heddle", name);
  return folder.str().str();
}

std::string heddle::sysrootFolder(const Target &target) {
  return ownFolder(gnuTriple(target));
}

std::string heddle::findLinker() {
  // An installed compiler has its own.
  std::string bundled = ownFolder("host/bin");
  if (auto found = llvm::sys::findProgramByName("ld.lld", llvm::StringRef(bundled)))
    return *found;
  // On the path the name with a version comes first: plain ld.lld may be an older linker that lacks options we pass.
  for (const char *name : {"ld.lld-22", "ld.lld"})
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
  return {};
}

// The command line; `runtime` is the folder of libheddle.a, start files and stand-ins for the C library. The result goes to
// standard output: the linker makes no temporary file of its own, which it would leave where it alone outlives us.
static std::vector<std::string> linkerArguments(LinkKind kind, ArrayRef<std::string> objects, const LinkNames &names,
                                                const Target &target, ArrayRef<StringRef> parts, StringRef runtime) {
  bool arm = target.cpu.isAArch64();
  std::string loader = arm ? "ld-linux-aarch64.so.1" : "ld-linux-x86-64.so.2";
  auto file = [&](StringRef name) { return (runtime + "/" + name).str(); };
  std::vector<std::string> arguments = {"ld.lld", "-m", arm ? "aarch64linux" : "elf_x86_64", "-o", "-"};
  auto add = [&](ArrayRef<std::string> more) { arguments.insert(arguments.end(), more.begin(), more.end()); };
  if (kind == LinkKind::Relocatable) {
    add({"-r", "--force-group-allocation"});
    add(objects);
    return arguments;
  }
  add({"--eh-frame-hdr", "--gc-sections", "--icf=all", "--hash-style=gnu", "-z", "relro", "-z", "now", "-z",
       "noexecstack", "--as-needed", "--build-id=none"});
  if (kind == LinkKind::Executable) {
    add({"-pie", "-dynamic-linker", (arm ? "/lib/" : "/lib64/") + loader,
         "--defsym=heddle_main_model=heddle_model_" + names.model.str(), file("Scrt1.o"), file("crti.o"),
         file("heddle_main.o"), file("heddle_chosen_parts.o")});
    for (StringRef part : parts)
      add({("--defsym=heddle_use_" + part + "=heddle_part_" + part).str()});
  } else {
    add({"-shared", "-Bsymbolic", "-soname", names.library.str(), file("crti.o")});
  }
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

static FailureOr<std::string> runLinker(LinkKind kind, ArrayRef<std::string> objects, const LinkNames &names,
                                        const Target &target, std::string &error, ArrayRef<StringRef> parts = {}) {
  auto fail = [&](const llvm::Twine &message) -> FailureOr<std::string> {
    error = message.str();
    return failure();
  };
  std::string linker = findLinker(), runtime = sysrootFolder(target), output, log;
  if (linker.empty())
    return fail("ld.lld is neither at " + ownFolder("host/bin/ld.lld") + " nor on the PATH");
  if (kind != LinkKind::Relocatable && !llvm::sys::fs::exists(runtime + "/libheddle.a"))
    return fail(runtime + "/libheddle.a: the runtime for this target is not installed");
  TemporaryFiles scratch;
  std::vector<std::string> paths(objects.size());
  std::error_code failed = scratch.add("", output);
  if (!failed)
    failed = scratch.add("", log);
  for (size_t i = 0; i < objects.size() && !failed; ++i)
    failed = scratch.add(objects[i], paths[i]);
  if (failed)
    return fail("cannot write temporary files: " + failed.message());
  std::vector<std::string> arguments = linkerArguments(kind, paths, names, target, parts, runtime);
  SmallVector<StringRef> views(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(output), StringRef(log)};
  std::string launchError;
  int code = llvm::sys::ExecuteAndWait(linker, views, std::nullopt, redirects, 0, 0, &launchError);
  auto said = llvm::MemoryBuffer::getFile(log);
  if (code != 0)
    return fail("the linker failed: " +
                (launchError.empty() && said ? (*said)->getBuffer().split('\n').first.str() : launchError));
  auto linked = llvm::MemoryBuffer::getFile(output, false, false);
  if (!linked)
    return fail(output + ": " + linked.getError().message());
  return (*linked)->getBuffer().str();
}

FailureOr<std::string> heddle::mergeObjects(ArrayRef<std::string> objects, StringRef symbol, const Target &target,
                                            std::string &error) {
  FailureOr<std::string> merged = runLinker(LinkKind::Relocatable, objects, {}, target, error);
  return succeeded(merged) ? keepOneGlobal(*merged, symbol, error) : merged;
}

FailureOr<std::string> heddle::link(LinkKind kind, ArrayRef<std::string> objects, const LinkNames &names,
                                    const Target &target, std::string &error, ArrayRef<StringRef> parts) {
  std::vector<std::string> inputs = objects.vec();
  if (target.isDevice()) {
    std::string path = sysrootFolder(target) + "/" + launchObject;
    auto object = llvm::MemoryBuffer::getFile(path);
    if (!object) {
      error = path + ": the runtime for this target is not installed";
      return failure();
    }
    inputs.push_back((*object)->getBuffer().str());
  }
  if (kind == LinkKind::Executable)
    return runLinker(kind, inputs, names, target, error, parts);
  // Kernels call each other across objects; once these are one, nobody else sees a kernel's name.
  FailureOr<std::string> merged = mergeObjects(inputs, ("heddle_model_" + names.model).str(), target, error);
  if (failed(merged) || kind == LinkKind::Relocatable)
    return merged;
  return runLinker(kind, *merged, names, target, error);
}
