// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef HEDDLE_FRONTENDS_ONNX_FIXSIZES_H
#define HEDDLE_FRONTENDS_ONNX_FIXSIZES_H

#include "bytes/Status.h"
#include "frontends/GivenSize.h"

#include <vector>

namespace heddle {

struct OnnxModel;

// Gives the sizes to the graph's inputs. A failure names a dimension that no input leaves open, and those that are.
Status fixSizes(OnnxModel &model, const std::vector<GivenSize> &sizes);

} // namespace heddle

#endif
