// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which reader a path belongs to: a directory is Hugging Face's, a file is ONNX or GGUF by its content.
#include "frontends/read/ReadModel.h"

#include "frontends/families/Families.h"
#include "frontends/families/Projectors.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/HuggingFace.h"
#include "frontends/mmproj/Mmproj.h"
#include "frontends/onnx/FixSizes.h"
#include "frontends/onnx/OnnxModel.h"
#include "frontends/quantized/QuantMethods.h"

namespace heddle {

static TensorType storedType(OnnxType type) {
  switch (type) {
  case OnnxType::Double:
    return TensorType::F64;
  case OnnxType::Float16:
    return TensorType::F16;
  case OnnxType::Bfloat16:
    return TensorType::BF16;
  case OnnxType::Bool:
    return TensorType::Bool;
  case OnnxType::Uint4:
  case OnnxType::Uint8:
    return TensorType::U8;
  case OnnxType::Uint16:
    return TensorType::U16;
  case OnnxType::Uint32:
    return TensorType::U32;
  case OnnxType::Uint64:
    return TensorType::U64;
  case OnnxType::Int4:
  case OnnxType::Int8:
    return TensorType::I8;
  case OnnxType::Int16:
    return TensorType::I16;
  case OnnxType::Int32:
    return TensorType::I32;
  case OnnxType::Int64:
    return TensorType::I64;
  default:
    return TensorType::F32;
  }
}

// The graph, and its initialisers as tensors of the checkpoint.
static Expected<Model> readOnnxModel(ModelFiles &files, const std::vector<GivenSize> &sizes) {
  Expected<OnnxModel> onnx = readOnnx(files);
  if (!onnx)
    return onnx.status();
  if (Status status = fixSizes(*onnx, sizes); !status.isOk())
    return errorIn(files.model(), status.message());
  Model model{{}, {}, files.model(), nullptr};
  model.config.source = "onnx";
  model.config.name = onnx->graph.name;
  model.checkpoint.files = onnx->files;
  for (const OnnxTensor &tensor : onnx->graph.initializers)
    model.checkpoint.tensors[tensor.name] = {storedType(tensor.type), tensor.dims,  tensor.file,
                                             tensor.offset,           tensor.bytes, false};
  model.onnx = std::make_shared<const OnnxModel>(std::move(*onnx));
  return model;
}

static bool endsWith(std::string_view path, std::string_view suffix) {
  return path.size() > suffix.size() && path.substr(path.size() - suffix.size()) == suffix;
}

static bool isOnnx(const MappedFile &file) {
  return looksLikeOnnx(file) || endsWith(file.path(), ".onnx");
}

bool isOnnx(ModelFiles &files) {
  if (!files.isThere() || files.isFolder())
    return false;
  Expected<SharedFile> file = files.open();
  return file && isOnnx(**file);
}

Expected<Model> readModel(ModelFiles &files, const std::vector<GivenSize> &sizes, DecoderUse use) {
  const std::string &path = files.model();
  if (!files.isThere())
    return errorIn(path, "no such file or directory").as(StatusCode::Unreadable);
  if (files.isFolder())
    return readHuggingFace(files, families(), restoreQuantizedWeights, use);
  Expected<SharedFile> file = files.open();
  if (!file)
    return file.status();
  if (isOnnx(**file))
    return readOnnxModel(files, sizes);
  if (endsWith(path, ".safetensors"))
    return errorIn(path, "is a file of weights; give the directory that also holds its config.json");
  if (!endsWith(path, ".gguf") && (*file)->text().substr(0, 4) != "GGUF")
    return errorIn(path, "begins with '" + printable((*file)->text().substr(0, 4)) +
                             "' and is of no known kind; expected a GGUF file (magic 'GGUF'), an ONNX file, a Hugging "
                             "Face folder, or an MLIR module whose name ends in .mlir");
  return readGguf(files, families(), use);
}

Expected<Model> readModelWithImages(ModelFiles &files, ModelFiles &mmproj) {
  for (ModelFiles *part : {&files, &mmproj}) {
    if (!part->isThere())
      return errorIn(part->model(), "no such file or directory").as(StatusCode::Unreadable);
    if (part->isFolder())
      return errorIn(part->model(), "is a folder; --mmproj is a GGUF file beside a GGUF file");
  }
  Expected<Model> model = readGguf(files, families(), DecoderUse::Generate);
  if (!model)
    return model;
  Expected<GgufFile> text = GgufFile::open(files);
  if (!text)
    return text.status();
  HEDDLE_RETURN_IF_ERROR(joinMmproj(mmproj, *text, families(), projectors(), *model));
  return model;
}

bool isOnnx(const std::string &path) {
  ModelFiles files(path);
  return isOnnx(files);
}

Expected<Model> readModel(const std::string &path, DecoderUse use) {
  ModelFiles files(path);
  return readModel(files, {}, use);
}

} // namespace heddle
