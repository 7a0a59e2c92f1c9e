// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/RunBinary.h"

#include "compiler/interpreter/TensorBytes.h"
#include "compiler/package/OutputFile.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

using namespace heddle;
using llvm::StringRef;

// As safetensors call it.
static std::string dtypeOf(const NamedTensor &tensor) {
  mlir::Type type = tensor.values.elementType;
  if (type.isInteger(1))
    return "BOOL";
  std::string width = std::to_string(type.getIntOrFloatBitWidth());
  return type.isBF16() ? "BF16" : (tensor.values.isFloat() ? "F" : tensor.isUnsigned ? "U" : "I") + width;
}

static bool writeTensors(const std::string &path, llvm::ArrayRef<NamedTensor> tensors, std::string &error) {
  llvm::json::Object table;
  std::string data;
  for (const NamedTensor &tensor : tensors) {
    int64_t begin = data.size();
    data += bytesOf(tensor.values);
    table[tensor.name] = llvm::json::Object{{"dtype", dtypeOf(tensor)},
                                            {"shape", llvm::json::Array(tensor.values.shape)},
                                            {"data_offsets", llvm::json::Array{begin, int64_t(data.size())}}};
  }
  std::string header = llvm::formatv("{0}", llvm::json::Value(std::move(table))).str();
  header.resize(llvm::alignTo(header.size(), 8), ' ');
  uint64_t length = header.size();
  OutputFile file;
  if (!OutputFile::create(path, file, error))
    return false;
  if (file.write(0, std::string(reinterpret_cast<const char *>(&length), sizeof length) + header + data) &&
      file.keep(false))
    return true;
  error = file.error();
  return false;
}

// What the file says of a tensor must be what the reference is.
static bool readTensor(const llvm::json::Object &table, StringRef data, NamedTensor &tensor, std::string &error) {
  const llvm::json::Object *entry = table.getObject(tensor.name);
  const llvm::json::Array *shape = entry ? entry->getArray("shape") : nullptr;
  const llvm::json::Array *offsets = entry ? entry->getArray("data_offsets") : nullptr;
  std::string dtype = dtypeOf(tensor);
  llvm::json::Value wanted = llvm::json::Array(tensor.values.shape);
  if (!shape || !offsets || offsets->size() != 2 || entry->getString("dtype") != StringRef(dtype) ||
      llvm::json::Value(llvm::json::Array(*shape)) != wanted) {
    error =
        llvm::formatv("the binary wrote no '{0}' of the reference's type {1} and shape {2}", tensor.name, dtype, wanted)
            .str();
    return false;
  }
  int64_t begin = (*offsets)[0].getAsInteger().value_or(-1),
          size = tensor.values.size() * storedBytes(tensor.values.elementType);
  if (begin < 0 || begin + size > int64_t(data.size())) {
    error = "the binary wrote a file that ends inside '" + tensor.name + "'";
    return false;
  }
  tensor.values = tensorFromBytes(tensor.values.elementType, tensor.values.shape, data.bytes_begin() + begin);
  return true;
}

static bool readTensors(const std::string &path, std::vector<NamedTensor> &tensors, std::string &error) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  StringRef bytes = file ? (*file)->getBuffer() : StringRef();
  uint64_t length = 0;
  if (bytes.size() >= sizeof length)
    memcpy(&length, bytes.data(), sizeof length);
  auto header = llvm::json::parse(bytes.drop_front(std::min(bytes.size(), sizeof length)).take_front(length));
  if (!header || !header->getAsObject()) {
    llvm::consumeError(header.takeError());
    error = path + ": the binary wrote no tensors";
    return false;
  }
  StringRef data = bytes.drop_front(sizeof length + length);
  return llvm::all_of(tensors,
                      [&](NamedTensor &tensor) { return readTensor(*header->getAsObject(), data, tensor, error); });
}

int heddle::execute(const std::string &binary, llvm::ArrayRef<StringRef> arguments, const std::string &folder,
                    std::string &said) {
  std::string log = folder + "/log", launchError;
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(""), StringRef(log)};
  llvm::SmallVector<StringRef> command = {binary};
  command.append(arguments.begin(), arguments.end());
  int code = llvm::sys::ExecuteAndWait(binary, command, std::nullopt, redirects, 0, 0, &launchError);
  auto file = llvm::MemoryBuffer::getFile(log);
  said = !launchError.empty() ? launchError : file ? (*file)->getBuffer().split('\n').first.str() : "";
  return code;
}

bool heddle::runBinary(const std::string &binary, const std::string &folder, llvm::ArrayRef<NamedTensor> inputs,
                       std::vector<NamedTensor> &outputs, std::string &error, llvm::ArrayRef<StringRef> options) {
  std::string in = folder + "/in.safetensors", out = folder + "/out.safetensors", said;
  if (!writeTensors(in, inputs, error))
    return false;
  llvm::SmallVector<StringRef> arguments = {"--io", in, out};
  arguments.append(options.begin(), options.end());
  int code = execute(binary, arguments, folder, said);
  if (code == 0)
    return readTensors(out, outputs, error);
  error = llvm::formatv("the binary ended with code {0}: {1}", code, said).str();
  return false;
}
