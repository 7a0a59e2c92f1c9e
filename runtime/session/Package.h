// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A compiled model that this machine can run: its file, its code, and the device that it was compiled for.
#ifndef HEDDLE_RUNTIME_SESSION_PACKAGE_H
#define HEDDLE_RUNTIME_SESSION_PACKAGE_H

#include "bytes/MemoryScope.h"
#include "runtime/device/Device.h"
#include "runtime/model/ModelAbi.h"
#include "runtime/model/PackageFile.h"
#include "runtime/session/ThreadPool.h"

#include <memory>
#include <string_view>

namespace heddle {

// Receives lines that are no failures: what was opened, what will be slow.
struct Log {
  enum Level { Info, Warning };
  void (*take)(void *user, Level level, const char *message) = nullptr; // null: nobody listens
  void *user = nullptr;
};

struct OpenOptions {
  FileMemory memory = FileMemory::Mapped;
  std::string_view cpu; // the target whose code runs, of a file for several; empty: the best that this machine has
  Log log;
};

class Package {
public:
  // Opens the package of generated code: in the file from which the code was loaded.
  static Status open(const heddle_model *code, const OpenOptions &options, std::unique_ptr<Package> &outPackage);
  // Opens the package in `path`. Without code the file is a shared object, which is loaded once its package is verified.
  static Status openFile(const std::string &path, const heddle_model *code, const OpenOptions &options,
                         std::unique_ptr<Package> &outPackage);
  ~Package();

  const package::Package &metadata() const { return file.metadata(); }
  // What kernels read: addresses of the device, if the model was compiled for one.
  const uint8_t *weights() const { return device ? deviceWeights.data() : file.weights(); }
  // What graphs read, which run on the CPU in any case.
  const uint8_t *hostWeights() const { return file.weights(); }
  uint64_t weightsSize() const { return metadata().weights_size(); }
  const heddle_model &code() const { return *model; }
  const std::string &path() const { return file.path(); }
  // The bytes, as they lie in the file.
  const PackageFile &onDisk() const { return file; }

  // The device that the model was compiled for, with the weights on it, null for the CPU: opened by the first call, which may
  // select one, and shared by all sessions.
  Status openDevice(std::string_view selector, Device *&outDevice);

  // Hashes all weights, and the code where it has a hash.
  Status check() const;

  void say(Log::Level level, const std::string &message) const {
    if (log.take)
      log.take(log.user, level, message.c_str());
  }
  // Warns of more threads than CPUs, which give the same bits, later.
  void sayOfThreads(const ThreadPool &pool) const;

private:
  Status selectVariant(std::string_view wanted);
  Status loadCode();
  Status checkCode(const heddle_model *code) const;
  Status startDevice(std::string_view target, std::string_view selector, std::string &outNote);

  PackageFile file;
  Log log;
  const heddle_model *model = nullptr; // of the variant that runs
  struct Library : MemoryScope::Resource {
    Library() : Resource([](Resource *resource) { static_cast<Library *>(resource)->close(); }) {}
    void close();
    void *handle = nullptr; // of dlopen
  } library;
  pthread_mutex_t deviceMutex = PTHREAD_MUTEX_INITIALIZER;
  std::unique_ptr<Device> device;
  DeviceMemory deviceWeights;
};

} // namespace heddle

#endif
