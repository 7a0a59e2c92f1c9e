// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file of a compiled model, without running it: ELF sections `.heddle.package` (header, FlatBuffers) and `.heddle.weights`, or
// weights in a sidecar; `.heddle.code`, the hash of its code. Nothing of it is trusted: header, hash, FlatBuffers structure and every index are checked before anybody
// reads a field.
#ifndef HEDDLE_RUNTIME_MODEL_PACKAGEFILE_H
#define HEDDLE_RUNTIME_MODEL_PACKAGEFILE_H

#include "bytes/MappedFile.h"
#include "runtime/model/ElfSections.h"
#include "runtime/model/PackageHeader.h"
#include "runtime/schema/package_generated.h"

#include <vector>

namespace heddle {

class PackageFile {
public:
  // Finds the sections and the first package's header. `wantedMachine`: the e_machine that the code must be for, EM_NONE for any.
  Status open(const std::string &path, uint16_t wantedMachine, FileMemory memory = FileMemory::Mapped);
  // A program of several models has their packages one after the other, as the linker met the objects, and their weights likewise;
  // each begins at a multiple of 64. Goes on to the next.
  Status next(bool &outFound);

  // Of the package that was found: checks and reads its metadata; finds its weights, once the metadata are read.
  Status readMetadata();
  // Its variants, of which metadata() is the one that was selected, else the first, which is for the least CPU.
  size_t numVariants() const { return 1 + (root->variants() ? root->variants()->size() : 0); }
  const package::Package &variant(size_t index) const { return index ? *root->variants()->Get(index - 1) : *root; }
  void selectVariant(size_t index) { selected = index, isSelected = true; }
  size_t selectedVariant() const { return selected; }
  bool isVariantSelected() const { return isSelected; }
  // Bytes of weights that several variants read, and those that each one reads alone.
  struct WeightShares {
    uint64_t shared = 0;
    std::vector<uint64_t> own; // (numVariants())
  };
  WeightShares weightShares() const;
  Status findWeights();
  // Hashes the weights of all variants, once they are found.
  Status checkWeights() const;
  // Hashes the code, where it has a hash: what the compiler linked has one, an object and what others link from it has none.
  bool hasCodeHash() const { return codeHash != nullptr; }
  std::string codeSha256() const { return codeHash ? hexadecimal(codeHash, sizeof(Sha256Digest)) : ""; }
  Status checkCode() const;

  const std::string &path() const { return filePath; }
  void rename(std::string path) { filePath = std::move(path); } // for messages and the sidecar
  uint64_t size() const { return file.size(); }
  const Elf64_Ehdr &elfHeader() const { return sections.header(); }
  const uint8_t *metadataSha256() const { return header.sha256; } // (32)
  bool hasSidecar() const { return header.weights_size == 0 && root->weights_size() != 0; }
  const package::Package &metadata() const { return variant(selected); }
  const uint8_t *weights() const { return weightBytes; }

private:
  Status findSections(uint16_t wantedMachine);
  Status readHeader();
  struct PlacedWeight {
    const package::Weight *weight;
    size_t variant;        // the first that reads it
    bool isShared = false; // others do as well
  };
  std::vector<PlacedWeight> placedWeights() const; // of all variants: by place, equal ones once

  std::string filePath;
  FileMemory memory = FileMemory::Mapped;
  MappedFile file, sidecar;
  ElfSections sections;
  const uint8_t *packageBytes = nullptr, *weightBytes = nullptr, *codeHash = nullptr;
  uint64_t packageSize = 0, weightSectionSize = 0;
  heddle_package_header header = {};
  const package::Package *root = nullptr;
  size_t selected = 0;
  bool isSelected = false;
};

// Checks every value of verified FlatBuffers metadata that code relies on (PackageCheck.cpp).
Status checkMetadata(const package::Package &root, const std::string &path);

// What --info and `heddle inspect` say of a package, a line per fact (PackageText.cpp).
std::string packageText(const PackageFile &file);
std::string packageFact(const char *key, const std::string &value); // such a line

// "F32", as safetensors spells it.
const char *dataTypeName(package::DataType type);
// The model by its own file or folder; `name` is that of its symbol, which is "main" in every executable.
std::string modelName(const package::Package &metadata);
// The options that sampling has where the command line gives none, and what of the model names them.
std::string samplingDefaults(const package::Package &metadata);
// "(batch, 3, ?)"
std::string outputNames(const package::Encoder &encoder, const char *separator);
std::string declaredShape(const package::GraphTensor &tensor);

} // namespace heddle

#endif
