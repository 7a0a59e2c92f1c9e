// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/RunBinary.h"

#include "compiler/package/OutputFile.h"
#include "frontends/huggingface/Safetensors.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

using namespace heddle;
using llvm::StringRef;

static bool writeIds(const std::string &path, llvm::ArrayRef<int64_t> ids, std::string &error) {
  llvm::json::Object entry{{"dtype", "I64"}, {"shape", {1, ids.size()}}, {"data_offsets", {0, ids.size() * sizeof(int64_t)}}};
  std::string header = llvm::formatv("{0}", llvm::json::Value(llvm::json::Object{{"input_ids", std::move(entry)}})).str();
  uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char *>(&length), sizeof length);
  bytes += header;
  bytes.append(reinterpret_cast<const char *>(ids.data()), ids.size() * sizeof(int64_t));
  OutputFile file;
  if (!OutputFile::create(path, file, error))
    return false;
  if (file.write(0, bytes) && file.keep(false))
    return true;
  error = file.error();
  return false;
}

static bool readLogits(const std::string &path, const Tensor &like, Tensor &outLogits, std::string &error) {
  Checkpoint file;
  if (Status read = readSafetensors(path, file); !read) {
    error = read.takeError().message;
    return false;
  }
  const TensorInfo *logits = file.find("logits");
  if (!logits || llvm::ArrayRef(logits->shape) != llvm::ArrayRef(like.shape)) {
    error = path + ": the binary wrote no logits of the reference's shape";
    return false;
  }
  std::vector<float> values(like.size());
  dequantize(logits->type, file.data(*logits), values.size(), values.data());
  outLogits = Tensor::zeros(like.elementType, like.shape);
  outLogits.reals.assign(values.begin(), values.end());
  return true;
}

bool heddle::runOnIds(const std::string &binary, const std::string &folder, llvm::ArrayRef<int64_t> ids, const Tensor &like,
                      Tensor &outLogits, std::string &error) {
  std::string in = folder + "/in.safetensors", out = folder + "/out.safetensors", log = folder + "/log";
  if (!writeIds(in, ids, error))
    return false;
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(""), StringRef(log)};
  std::string launchError;
  int code = llvm::sys::ExecuteAndWait(binary, {binary, "--io", in, out}, std::nullopt, redirects, 0, 0, &launchError);
  if (code == 0)
    return readLogits(out, like, outLogits, error);
  auto said = llvm::MemoryBuffer::getFile(log);
  StringRef line = said ? (*said)->getBuffer().split('\n').first : StringRef();
  error = llvm::formatv("the binary ended with code {0}: {1}", code, launchError.empty() ? line : StringRef(launchError)).str();
  return false;
}
