// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/Package.h"

#include "runtime/CpuFeatures.h"
#include "runtime/Sha256.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
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

bool contains(uint64_t size, uint64_t offset, uint64_t length) { return offset <= size && length <= size - offset; }

// The running program; where /proc is not mounted, under the name that it was started by.
std::string ownFile() {
  const char *self = "/proc/self/exe";
  auto startedAs = reinterpret_cast<const char *>(getauxval(AT_EXECFN));
  return access(self, R_OK) == 0 || !startedAs ? self : startedAs;
}

// The file of the loaded object that holds `address`.
struct ObjectSearch {
  uintptr_t address;
  std::string path;
  bool found;
};

int visitObject(dl_phdr_info *info, size_t, void *user) {
  auto &search = *static_cast<ObjectSearch *>(user);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || search.address < begin || search.address - begin >= segment.p_memsz)
      continue;
    search.found = true;
    search.path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : ownFile();
    return 1;
  }
  return 0;
}

// The name behind /proc/self/exe, for messages and for the sidecar beside it.
std::string resolveSelf(const std::string &path) {
  char buffer[4096];
  ssize_t length = path == "/proc/self/exe" ? readlink(path.c_str(), buffer, sizeof buffer) : -1;
  return length > 0 && length < ssize_t(sizeof buffer) ? std::string(buffer, length) : path;
}

std::string hexadecimal(const uint8_t *bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += format("%02x", bytes[i]);
  return text;
}

// Fails with one line that names what is missing.
Status checkCpuFeatures(const package::Package &package) {
  std::string missing;
  if (package.cpu_features())
    for (const flatbuffers::String *name : *package.cpu_features())
      if (!hasCpuFeature({name->c_str(), name->size()}))
        missing += (missing.empty() ? "" : ", ") + name->str();
  if (missing.empty())
    return Status();
  return failure("compiled for " + (package.target() ? package.target()->str() : std::string("another CPU")) +
                 ", but this machine lacks " + missing);
}

} // namespace

Package::~Package() {
  if (library)
    dlclose(library);
}

Status Package::openDevice(const std::string &selector, Device *&outDevice) {
  std::string_view target = root->target() ? root->target()->string_view() : std::string_view();
  outDevice = nullptr;
  if (!isDeviceTarget(target))
    return selector.empty() ? Status() : invalidInput("--device: this model was compiled for the CPU");
  MutexLock lock(deviceMutex);
  if (!device) {
    std::unique_ptr<Device> opened;
    HEDDLE_RETURN_IF_ERROR(Device::open(target, selector, opened));
    HEDDLE_RETURN_IF_ERROR(deviceWeights.allocate(*opened, weightsSize(), "weights"));
    Status status = opened->upload(deviceWeights.data(), weightBytes, weightsSize());
    if (!status.isOk()) {
      deviceWeights.release();
      return status;
    }
    device = std::move(opened);
  }
  outDevice = device.get();
  return Status();
}

Status Package::open(const heddle_model *code, std::unique_ptr<Package> &outPackage) {
  ObjectSearch search = {reinterpret_cast<uintptr_t>(code), {}, false};
  dl_iterate_phdr(visitObject, &search);
  if (!search.found)
    return failure("the model's code lies in no loaded file");
  return openFile(search.path, code, outPackage);
}

Status Package::openFile(const std::string &path, const heddle_model *code, std::unique_ptr<Package> &outPackage) {
  std::unique_ptr<Package> package(new Package);
  package->model = code;
  HEDDLE_RETURN_IF_ERROR(package->file.open(path));
  package->filePath = resolveSelf(path);
  HEDDLE_RETURN_IF_ERROR(package->findSections());
  HEDDLE_RETURN_IF_ERROR(package->selectPackage());
  HEDDLE_RETURN_IF_ERROR(package->readMetadata());
  HEDDLE_RETURN_IF_ERROR(checkCpuFeatures(*package->root));
  HEDDLE_RETURN_IF_ERROR(package->findWeights());
  if (!package->model)
    HEDDLE_RETURN_IF_ERROR(package->loadCode());
  if (package->model->abi_version != HEDDLE_MODEL_ABI_VERSION)
    return failure(format("%s: code of ABI version %u, this runtime has %u", package->filePath.c_str(),
                          package->model->abi_version, HEDDLE_MODEL_ABI_VERSION));
  if (memcmp(package->model->package_sha256, package->header.sha256, 32) != 0)
    return failure(package->filePath + ": the package does not belong to this code (SHA-256 " +
                   hexadecimal(package->header.sha256, 8) + "…, the code was compiled with " +
                   hexadecimal(package->model->package_sha256, 8) + "…)");
  bool isGraph = package->root->task() == package::Task::Graph;
  if (isGraph ? !package->model->graph : !package->model->step)
    return failure(package->filePath + ": the code lacks the function of task " + package::EnumNameTask(package->root->task()));
  outPackage = std::move(package);
  return Status();
}

// Section headers of a 64-bit little-endian ELF file of this machine.
Status Package::findSections() {
  const uint8_t *bytes = file.data();
  Elf64_Ehdr elf;
  if (file.size() < sizeof elf || memcmp(bytes, ELFMAG, SELFMAG) != 0)
    return failure(filePath + ": byte 0: not an ELF file");
  memcpy(&elf, bytes, sizeof elf);
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_ident[EI_DATA] != ELFDATA2LSB || elf.e_machine != ownMachine)
    return failure(format("%s: code for another machine (e_machine %u, this one has %u)", filePath.c_str(),
                          elf.e_machine, ownMachine));
  if (elf.e_shentsize != sizeof(Elf64_Shdr) ||
      !contains(file.size(), elf.e_shoff, uint64_t(elf.e_shnum) * sizeof(Elf64_Shdr)) || elf.e_shstrndx >= elf.e_shnum)
    return failure(format("%s: section headers at byte %llu do not lie in the file of %llu bytes", filePath.c_str(),
                          (unsigned long long)elf.e_shoff, (unsigned long long)file.size()));
  auto sectionAt = [&](unsigned index) {
    Elf64_Shdr section;
    memcpy(&section, bytes + elf.e_shoff + index * sizeof section, sizeof section);
    return section;
  };
  Elf64_Shdr names = sectionAt(elf.e_shstrndx);
  if (names.sh_type == SHT_NOBITS || !contains(file.size(), names.sh_offset, names.sh_size))
    return failure(filePath + ": the section names do not lie in the file");
  for (unsigned i = 0; i < elf.e_shnum; ++i) {
    Elf64_Shdr section = sectionAt(i);
    if (section.sh_name >= names.sh_size)
      continue;
    const char *name = reinterpret_cast<const char *>(bytes + names.sh_offset + section.sh_name);
    uint64_t room = names.sh_size - section.sh_name;
    auto is = [&](const char *wanted) {
      return strlen(wanted) < room && memcmp(name, wanted, strlen(wanted) + 1) == 0;
    };
    bool isPackage = is(HEDDLE_PACKAGE_SECTION);
    if (!isPackage && !is(HEDDLE_WEIGHTS_SECTION))
      continue;
    if (section.sh_type == SHT_NOBITS || !contains(file.size(), section.sh_offset, section.sh_size))
      return failure(format("%s: section %s ends at byte %llu of a file of %llu: truncated", filePath.c_str(),
                            isPackage ? HEDDLE_PACKAGE_SECTION : HEDDLE_WEIGHTS_SECTION,
                            (unsigned long long)(section.sh_offset + section.sh_size),
                            (unsigned long long)file.size()));
    (isPackage ? packageBytes : weightBytes) = bytes + section.sh_offset;
    (isPackage ? packageSize : weightSectionSize) = section.sh_size;
  }
  return packageBytes ? Status() : failure(filePath + ": no section " HEDDLE_PACKAGE_SECTION);
}

Status Package::readHeader() {
  if (packageSize < sizeof header)
    return failure(format("%s: " HEDDLE_PACKAGE_SECTION " has %llu bytes, a header %zu", filePath.c_str(),
                          (unsigned long long)packageSize, sizeof header));
  memcpy(&header, packageBytes, sizeof header);
  if (memcmp(header.magic, HEDDLE_PACKAGE_MAGIC, sizeof header.magic) != 0)
    return failure(filePath + ": package header: bad magic, expected " HEDDLE_PACKAGE_MAGIC);
  if (header.major != HEDDLE_PACKAGE_MAJOR)
    return failure(format("%s: package version %u.%u, this runtime reads %u", filePath.c_str(), header.major,
                          header.minor, HEDDLE_PACKAGE_MAJOR));
  if (!contains(packageSize - sizeof header, 0, header.metadata_size) ||
      header.metadata_size > FLATBUFFERS_MAX_BUFFER_SIZE)
    return failure(format("%s: package header: metadata_size %llu, the section holds %llu", filePath.c_str(),
                          (unsigned long long)header.metadata_size, (unsigned long long)(packageSize - sizeof header)));
  return Status();
}

// A program of several models has their packages one after the other, as the linker met the objects, and their weights likewise; each
// begins at a multiple of 64. The code says which is its own.
Status Package::selectPackage() {
  HEDDLE_RETURN_IF_ERROR(readHeader());
  auto padded = [](uint64_t size) { return (size + 63) / 64 * 64; };
  while (model && memcmp(model->package_sha256, header.sha256, 32) != 0) {
    uint64_t step = padded(sizeof header + header.metadata_size);
    if (step >= packageSize || header.weights_size > weightSectionSize)
      break; // the last one: found not to belong to the code once it is known to be whole
    uint64_t weightStep = std::min(padded(header.weights_size), weightSectionSize);
    packageBytes += step;
    packageSize -= step;
    weightBytes += weightStep;
    weightSectionSize -= weightStep;
    HEDDLE_RETURN_IF_ERROR(readHeader());
  }
  return Status();
}

Status Package::readMetadata() {
  const uint8_t *metadata = packageBytes + sizeof header;
  Sha256Digest digest = sha256(metadata, header.metadata_size);
  if (memcmp(digest.data(), header.sha256, digest.size()) != 0)
    return failure(filePath + ": the package's metadata is damaged (SHA-256 " + hexadecimal(digest.data(), 8) +
                   "…, the header says " + hexadecimal(header.sha256, 8) + "…)");
  // Section alignment is the file's business; FlatBuffers needs 8 bytes.
  if (reinterpret_cast<uintptr_t>(metadata) % 8 != 0)
    return failure(filePath + ": " HEDDLE_PACKAGE_SECTION " is not aligned to 8 bytes");
  flatbuffers::Verifier verifier(metadata, header.metadata_size, 16, 64u << 20);
  if (!package::VerifyPackageBuffer(verifier))
    return failure(filePath + ": the package's metadata is not valid FlatBuffers");
  root = package::GetPackage(metadata);
  return checkMetadata(*root, filePath);
}

Status Package::findWeights() {
  uint64_t expected = root->weights_size();
  if (header.weights_size != 0) {
    if (header.weights_size != expected || weightSectionSize < expected)
      return failure(format("%s: " HEDDLE_WEIGHTS_SECTION " has %llu bytes, the header says %llu and the metadata %llu",
                            filePath.c_str(), (unsigned long long)weightSectionSize,
                            (unsigned long long)header.weights_size, (unsigned long long)expected));
  } else if (expected != 0) {
    std::string path = filePath + HEDDLE_SIDECAR_SUFFIX;
    if (Status status = sidecar.open(path); !status.isOk())
      return failure(status.message() + " (the weights of " + filePath + ")");
    heddle_sidecar_header side = {};
    if (sidecar.size() < sizeof side)
      return failure(path + ": truncated: no header");
    memcpy(&side, sidecar.data(), sizeof side);
    if (memcmp(side.magic, HEDDLE_SIDECAR_MAGIC, sizeof side.magic) != 0 || side.major != HEDDLE_PACKAGE_MAJOR)
      return failure(format("%s: not a weights file of version %u", path.c_str(), HEDDLE_PACKAGE_MAJOR));
    if (memcmp(side.package_sha256, header.sha256, sizeof side.package_sha256) != 0)
      return failure(path + ": the weights belong to another package than " + filePath);
    if (side.weights_size != expected || side.weights_offset < sizeof side ||
        !contains(sidecar.size(), side.weights_offset, side.weights_size))
      return failure(
          format("%s: weights of %llu bytes at byte %llu, the file has %llu bytes and the metadata wants %llu",
                 path.c_str(), (unsigned long long)side.weights_size, (unsigned long long)side.weights_offset,
                 (unsigned long long)sidecar.size(), (unsigned long long)expected));
    weightBytes = sidecar.data() + side.weights_offset;
  }
  if (reinterpret_cast<uintptr_t>(weightBytes) % 64 != 0)
    return failure(filePath + ": the weights are not aligned to 64 bytes");
  return Status();
}

Status Package::loadCode() {
  std::string path = filePath.find('/') == std::string::npos ? "./" + filePath : filePath;
  library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return failure(dlerror());
  std::string symbol = "heddle_model_" + root->name()->str();
  auto function = reinterpret_cast<const heddle_model *(*)()>(dlsym(library, symbol.c_str()));
  if (!function)
    return failure(filePath + ": no symbol " + symbol);
  model = function();
  return Status();
}

std::string Package::metadataSha256() const { return hexadecimal(header.sha256, 32); }

Status Package::checkWeights() const {
  if (!root->weights())
    return Status();
  for (const package::Weight *weight : *root->weights()) {
    Sha256Digest digest = sha256(weightBytes + weight->offset(), weight->size());
    if (memcmp(digest.data(), weight->sha256()->data(), digest.size()) != 0)
      return failure(format("%s: weight '%s' (%llu bytes at %llu) is damaged: SHA-256 differs", filePath.c_str(),
                            weight->name()->c_str(), (unsigned long long)weight->size(),
                            (unsigned long long)weight->offset()));
  }
  return Status();
}

} // namespace heddle
