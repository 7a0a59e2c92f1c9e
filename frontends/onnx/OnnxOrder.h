// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The specification asks for nodes in an order in which each stands behind those that it reads. Converters to 16-bit floats append the casts
// of a graph's inputs at its end, and runtimes sort what they load.
#ifndef HEDDLE_FRONTENDS_ONNX_ONNXORDER_H
#define HEDDLE_FRONTENDS_ONNX_ONNXORDER_H

#include "frontends/onnx/OnnxModel.h"

namespace heddle {

// Puts the nodes of every graph and function behind those that they read, otherwise as they are. Nodes of a cycle stay, for
// `validateOnnx` to name.
void sortNodes(OnnxModel &model);

} // namespace heddle

#endif
