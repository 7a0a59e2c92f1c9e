// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What must hold of names in an ONNX model, whatever its ops mean.
#ifndef HEDDLE_FRONTENDS_ONNX_ONNXVALIDATE_H
#define HEDDLE_FRONTENDS_ONNX_ONNXVALIDATE_H

#include "frontends/onnx/OnnxModel.h"

namespace heddle {

// Every name is defined once in its scope and before it is used, graph outputs are defined, domains of nodes are
// imported or those of local functions, no function reaches itself through its calls.
Status validateOnnx(const OnnxModel &model);

} // namespace heddle

#endif
