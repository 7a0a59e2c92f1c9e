// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/QuietModel.h"

#include "compiler/Program.h"
#include "compiler/package/OutputFile.h"
#include "compiler/verify/VerifyPlan.h"
#include "frontends/read/ReadModel.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <set>

using namespace heddle;
using llvm::StringRef;
namespace fs = llvm::sys::fs;

// A power of two: no bit of a normal number is lost. Variances of 1 become 2e-4, beside which epsilons of 1e-6 count.
static constexpr int scaleExponent = -6;

static const llvm::fltSemantics *semanticsOf(TensorType type) {
  switch (type) {
  case TensorType::F32:
    return &llvm::APFloat::IEEEsingle();
  case TensorType::F16:
    return &llvm::APFloat::IEEEhalf();
  case TensorType::BF16:
    return &llvm::APFloat::BFloat();
  default:
    return nullptr;
  }
}

static void scaleNumber(char *bytes, const llvm::fltSemantics &semantics, unsigned width) {
  uint64_t bits = width == 4 ? llvm::support::endian::read32le(bytes) : llvm::support::endian::read16le(bytes);
  llvm::APFloat number =
      scalbn(llvm::APFloat(semantics, llvm::APInt(8 * width, bits)), scaleExponent, llvm::APFloat::rmNearestTiesToEven);
  bits = number.bitcastToAPInt().getZExtValue();
  width == 4 ? llvm::support::endian::write32le(bytes, bits) : llvm::support::endian::write16le(bytes, bits);
}

static bool isMatrix(const TensorInfo &tensor) {
  return llvm::count_if(tensor.shape, [](int64_t size) { return size > 1; }) >= 2 && semanticsOf(tensor.type);
}

// Where a file of the model lies in its copy: beside the others as it was.
static std::string copyOf(StringRef file, StringRef root, StringRef folder) {
  llvm::SmallString<128> path(folder);
  StringRef name = file.starts_with(root) ? file.drop_front(root.size()).ltrim('/') : llvm::sys::path::filename(file);
  llvm::sys::path::append(path, name);
  return path.str().str();
}

static bool writeWhole(const std::string &path, StringRef bytes, std::string &error) {
  (void)fs::create_directories(llvm::sys::path::parent_path(path));
  OutputFile file;
  if (!OutputFile::create(path, file, error))
    return false;
  if (file.write(0, bytes.str()) && file.keep(false))
    return true;
  error = file.error();
  return false;
}

// The configs of `from`, in or under `root`; of a model's folder also those of the folders in it, which modules of sentence-transformers have.
static void copyConfigs(StringRef root, StringRef folder, const std::string &from, bool withFolders) {
  std::error_code code;
  for (fs::directory_iterator entry(from, code), end; entry != end && !code; entry.increment(code)) {
    std::string copy = copyOf(entry->path(), root, folder);
    if (llvm::sys::path::extension(entry->path()) == ".json") {
      (void)fs::create_directories(llvm::sys::path::parent_path(copy));
      (void)fs::copy_file(entry->path(), copy);
    } else if (withFolders && fs::is_directory(entry->path())) {
      copyConfigs(root, folder, entry->path(), /*withFolders=*/false);
    }
  }
}

Expected<std::string> heddle::writeQuietModel(const std::string &path, const std::string &folder) {
  if (StringRef(path).ends_with(".mlir")) // its numbers are in the text
    return std::string();
  Expected<Model> model = readModel(path);
  if (!model)
    return model.status();
  const Checkpoint &checkpoint = model->checkpoint;
  if (bytesOf(checkpoint) > smallModelBytes)
    return std::string();
  std::vector<std::string> files;
  files.reserve(checkpoint.files.size());
  for (const auto &file : checkpoint.files)
    files.emplace_back(reinterpret_cast<const char *>(file->data()), file->size());
  std::set<std::pair<uint32_t, uint64_t>> scaled; // tensors may share bytes
  for (const auto &[name, tensor] : checkpoint.tensors) {
    if (!isMatrix(tensor) || !scaled.insert({tensor.file, tensor.offset}).second)
      continue;
    unsigned width = tensorTypeInfo(tensor.type).blockBytes;
    for (uint64_t at = 0; at < tensor.bytes; at += width)
      scaleNumber(&files[tensor.file][tensor.offset + at], *semanticsOf(tensor.type), width);
  }
  if (scaled.empty())
    return std::string();
  bool isFolder = fs::is_directory(path);
  std::string root = isFolder ? StringRef(path).rtrim('/').str() : folderOf(path), error;
  for (auto [file, bytes] : llvm::zip_equal(checkpoint.files, files))
    if (!writeWhole(copyOf(file->path(), root, folder), bytes, error))
      return invalidInput(error);
  copyConfigs(root, folder, root, isFolder);
  return isFolder ? folder : copyOf(path, root, folder);
}
