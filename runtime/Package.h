// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A compiled model as a file: ELF sections `.heddle.package` (header, FlatBuffers) and `.heddle.weights`, or weights
// in a sidecar.
// Nothing of it is trusted: header, hash, FlatBuffers structure and every index are checked before anybody reads a
// field.
#ifndef HEDDLE_RUNTIME_PACKAGE_H
#define HEDDLE_RUNTIME_PACKAGE_H

#include "runtime/MappedFile.h"
#include "runtime/ModelAbi.h"
#include "runtime/PackageHeader.h"
#include "runtime/device/Device.h"
#include "runtime/schema/package_generated.h"

#include <memory>

namespace heddle {

class Package {
public:
  // Opens the package of generated code: in the file from which the code was loaded.
  static Status open(const heddle_model *code, std::unique_ptr<Package> &outPackage);
  // Opens the package in `path`. Without code the file is a shared object, which is loaded once its package is
  // verified.
  static Status openFile(const std::string &path, const heddle_model *code, std::unique_ptr<Package> &outPackage);
  ~Package();

  const package::Package &metadata() const { return *root; }
  // What kernels read: addresses of the device, if the model was compiled for one.
  const uint8_t *weights() const { return device ? deviceWeights.data() : weightBytes; }
  uint64_t weightsSize() const { return root->weights_size(); }
  const heddle_model &code() const { return *model; }
  const std::string &path() const { return filePath; }
  std::string metadataSha256() const;  // 64 hexadecimal digits

  // The device that the model was compiled for, with the weights on it, null for the CPU: opened by the first call, which may
  // select one, and shared by all sessions.
  Status openDevice(const std::string &selector, Device *&outDevice);

  // Hashes all weights.
  Status checkWeights() const;

private:
  Status findSections();
  Status readHeader();
  Status selectPackage();
  Status readMetadata();
  Status findWeights();
  Status loadCode();

  std::string filePath;
  MappedFile file, sidecar;
  const uint8_t *packageBytes = nullptr, *weightBytes = nullptr;
  uint64_t packageSize = 0, weightSectionSize = 0;
  heddle_package_header header = {};
  const package::Package *root = nullptr;
  const heddle_model *model = nullptr;
  void *library = nullptr;  // of dlopen
  pthread_mutex_t deviceMutex = PTHREAD_MUTEX_INITIALIZER;
  std::unique_ptr<Device> device;
  DeviceMemory deviceWeights;
};

// Checks every value of verified FlatBuffers metadata that code relies on (PackageCheck.cpp).
Status checkMetadata(const package::Package &root, const std::string &path);

} // namespace heddle

#endif
