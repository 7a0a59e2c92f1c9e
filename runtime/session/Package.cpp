// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/Package.h"

#include "bytes/MutexLock.h"
#include "runtime/model/CpuFeatures.h"
#include "runtime/model/ModelKind.h"
#include "runtime/model/Variants.h"
#include "runtime/session/SessionParts.h"
#include "runtime/session/ThreadPool.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

namespace heddle {
namespace {

#if defined(__x86_64__)
constexpr uint16_t ownMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t ownMachine = EM_AARCH64;
#else
#error "unknown machine"
#endif

// The running program; where /proc is not mounted, under the name that it was started by.
std::string ownFile() {
  const char *self = "/proc/self/exe";
  auto startedAs = reinterpret_cast<const char *>(getauxval(AT_EXECFN)); // NOLINT(performance-no-int-to-ptr)
  return access(self, R_OK) == 0 || !startedAs ? self : startedAs;
}

// The file of the loaded object that holds `address`.
struct ObjectSearch {
  uintptr_t address;
  const char *name; // the loader's; null or empty: the program
  bool found;
};

// The loader holds a lock meanwhile: nothing is allocated here.
int visitObject(dl_phdr_info *info, size_t, void *user) {
  auto &search = *static_cast<ObjectSearch *>(user);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || search.address < begin || search.address - begin >= segment.p_memsz)
      continue;
    search.found = true;
    search.name = info->dlpi_name;
    return 1;
  }
  return 0;
}

// Where the mapped file that holds `address` lies, as an absolute path; empty where /proc does not say it. The loader knows a library by
// the name that it was opened with, which means another file once the process has changed its folder.
std::string mappedFile(uintptr_t address) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps)
    return {};
  char line[4352]; // a path has at most 4096 bytes
  const char *found = nullptr;
  while (!found && fgets(line, sizeof line, maps)) {
    char *dash = nullptr; // "7f00-7f40 r-xp 00000000 fe:00 123   /lib/x.so\n"
    uintptr_t begin = strtoul(line, &dash, 16);
    if (*dash == '-' && begin <= address && address < strtoul(dash + 1, nullptr, 16))
      found = strchr(line, '/');
  }
  fclose(maps); // before anything is allocated: a MemoryScope gives back memory, and no open file
  return found ? std::string(found, strcspn(found, "\n")) : std::string();
}

// The name behind /proc/self/exe, for messages and for the sidecar beside it.
std::string resolveSelf(const std::string &path) {
  char buffer[4096];
  ssize_t length = path == "/proc/self/exe" ? readlink(path.c_str(), buffer, sizeof buffer) : -1;
  return length > 0 && length < ssize_t(sizeof buffer) ? std::string(buffer, length) : path;
}

} // namespace

void Package::Library::close() {
  if (handle)
    dlclose(handle);
}

Package::~Package() {
  MemoryScope::leave(&library);
  library.close();
}

// Opens the device and puts the weights on it; the log is to say `outNote`.
Status Package::startDevice(std::string_view target, std::string_view selector, std::string &outNote) {
  std::unique_ptr<Device> opened;
  HEDDLE_RETURN_IF_ERROR(heddle::openDevice(target, std::string(selector), opened));
  std::string note = "device: " + opened->description();
  Status status = deviceWeights.allocate(*opened, weightsSize(), "weights");
  if (status.isOk())
    status = opened->upload(deviceWeights.data(), file.weights(), weightsSize());
  if (!status.isOk()) {
    deviceWeights.release();
    return status;
  }
  std::swap(outNote, note);
  device = std::move(opened);
  return Status();
}

Status Package::openDevice(std::string_view selector, Device *&outDevice) {
  std::string_view target = metadata().target() ? metadata().target()->string_view() : std::string_view();
  outDevice = nullptr;
  if (!isDeviceTarget(target))
    return selector.empty() ? Status() : invalidInput("device: this model was compiled for the CPU");
  MutexLock lock(deviceMutex);
  if (!device) {
    Status status;
    std::string note;
    // Within the lock, which a MemoryScope would not give back.
    if (!runInMemory([&] { status = startDevice(target, selector, note); }))
      return outOfMemory();
    HEDDLE_RETURN_IF_ERROR(status);
    say(Log::Info, note);
  }
  outDevice = device.get();
  return Status();
}

Status Package::open(const heddle_model *code, const OpenOptions &options, std::unique_ptr<Package> &outPackage) {
  ObjectSearch search = {reinterpret_cast<uintptr_t>(code), nullptr, false};
  dl_iterate_phdr(visitObject, &search);
  if (!search.found)
    return Status::failure("the model's code lies in no loaded file");
  std::string path = search.name && *search.name ? search.name : ownFile();
  if (std::string mapped = path[0] == '/' ? "" : mappedFile(search.address); !mapped.empty())
    path = mapped;
  return openFile(path, code, options, outPackage);
}

// The variant that this machine runs becomes the package's metadata.
Status Package::selectVariant(std::string_view wanted) {
  std::vector<VariantNeeds> variants(file.numVariants());
  for (size_t i = 0; i < variants.size(); ++i) {
    const package::Package &variant = file.variant(i);
    variants[i].target = variant.target() ? variant.target()->str() : "another CPU";
    if (variant.cpu_features())
      for (const flatbuffers::String *name : *variant.cpu_features())
        variants[i].features.push_back(name->string_view());
  }
  size_t chosen = 0;
  HEDDLE_RETURN_IF_ERROR(chooseVariant(variants, wanted, hasCpuFeature, chosen));
  file.selectVariant(chosen);
  return Status();
}

// That the code is of this runtime, and of this package.
Status Package::checkCode(const heddle_model *code) const {
  if (!code)
    return Status::failure(file.path() + ": the code lacks a variant of the package");
  if (code->abi_version != HEDDLE_MODEL_ABI_VERSION)
    return Status::failure(format("%s: code of ABI version %u, this runtime has %u", file.path().c_str(),
                                  code->abi_version, HEDDLE_MODEL_ABI_VERSION));
  if (memcmp(code->package_sha256, file.metadataSha256(), 32) != 0)
    return Status::failure(file.path() + ": the package does not belong to this code (SHA-256 " +
                           hexadecimal(file.metadataSha256(), 8) + "…, the code was compiled with " +
                           hexadecimal(code->package_sha256, 8) + "…)");
  return Status();
}

Status Package::openFile(const std::string &path, const heddle_model *code, const OpenOptions &options,
                         std::unique_ptr<Package> &outPackage) {
  std::unique_ptr<Package> package(new Package);
  package->model = code;
  package->log = options.log;
  PackageFile &file = package->file;
  HEDDLE_RETURN_IF_ERROR(file.open(path, ownMachine, options.memory));
  file.rename(resolveSelf(path));
  bool found = true; // the last one is found not to belong to the code once it is known to be whole
  while (code && found && memcmp(code->package_sha256, file.metadataSha256(), 32) != 0)
    HEDDLE_RETURN_IF_ERROR(file.next(found));
  HEDDLE_RETURN_IF_ERROR(file.readMetadata());
  HEDDLE_RETURN_IF_ERROR(package->selectVariant(options.cpu));
  HEDDLE_RETURN_IF_ERROR(file.findWeights());
  if (!code)
    HEDDLE_RETURN_IF_ERROR(package->loadCode());
  HEDDLE_RETURN_IF_ERROR(package->checkCode(package->model));
  if (size_t variant = file.selectedVariant()) {
    package->model = package->model->variants ? package->model->variants[variant - 1] : nullptr;
    HEDDLE_RETURN_IF_ERROR(package->checkCode(package->model));
  }
  const heddle_model &model = package->code();
  package::Task task = file.metadata().task();
  bool encodes = task == package::Task::Encode || task == package::Task::Seq2Seq;
  bool generates = task == package::Task::Generate || task == package::Task::Seq2Seq;
  if ((generates && !model.step) || (encodes && !model.encode))
    return Status::failure(file.path() + ": the code lacks the function of task " + package::EnumNameTask(task));
  unsigned graphs = file.metadata().graphs() ? file.metadata().graphs()->size() : 0;
  if (graphs != model.num_graphs)
    return Status::failure(
        format("%s: code of %u graphs, the package describes %u", file.path().c_str(), model.num_graphs, graphs));
  outPackage = std::move(package);
  return Status();
}

void Package::sayOfThreads(const ThreadPool &pool) const {
  std::string warning;
  // A warning that there is no memory for is left out.
  if (pool.askedFor() > pool.size() && runInMemory([&] {
        warning = format("%d of %d threads run: this process has %d CPU%s", pool.size(), pool.askedFor(), pool.size(),
                         pool.size() == 1 ? "" : "s");
      }))
    say(Log::Warning, warning);
}

Status Package::check() const {
  HEDDLE_RETURN_IF_ERROR(file.checkWeights());
  return file.checkCode();
}

Status Package::loadCode() {
  const std::string &name = file.path();
  std::string path = name.find('/') == std::string::npos ? "./" + name : name;
  library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library.handle)
    return Status::failure(dlerror());
  MemoryScope::enter(&library);
  std::string symbol = "heddle_model_" + metadata().name()->str();
  auto function = reinterpret_cast<const heddle_model *(*)()>(dlsym(library.handle, symbol.c_str()));
  if (!function)
    return Status::failure(name + ": no symbol " + symbol);
  model = function();
  return Status();
}

} // namespace heddle
