// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a TensorProto to an OnnxTensor: where its elements lie, and that they are all there.
#ifndef HEDDLE_FRONTENDS_ONNX_ONNXTENSORS_H
#define HEDDLE_FRONTENDS_ONNX_ONNXTENSORS_H

#include "frontends/ModelFiles.h"
#include "frontends/onnx/OnnxModel.h"

namespace onnx {
class TensorProto;
class SparseTensorProto;
} // namespace onnx

namespace heddle {

// Opens the files of external data.
class OnnxTensorReader {
public:
  OnnxTensorReader(OnnxModel &model, ModelFiles &files) : model(model), files(files) {}
  // `proto` comes from scanOnnx: its raw_data is an OnnxByteRange.
  Expected<OnnxTensor> read(const onnx::TensorProto &proto);
  Expected<OnnxTensor> read(const onnx::SparseTensorProto &proto);

private:
  Status fail(const std::string &name, const std::string &what) const;
  Status readExternal(const onnx::TensorProto &proto, OnnxTensor &tensor);
  Status readTyped(const onnx::TensorProto &proto, OnnxTensor &tensor, uint64_t bytes);
  Status compareChecksum(const std::string &name, uint32_t file, const std::string &location,
                         const std::string &stated);
  Expected<uint32_t> openExternal(const std::string &name, const std::string &location);

  OnnxModel &model;
  ModelFiles &files;
  std::map<std::string, uint32_t> opened;    // by location
  std::map<uint32_t, std::string> checksums; // of files
};

} // namespace heddle

#endif
