// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/FixSizes.h"

#include "bytes/Text.h"
#include "frontends/onnx/OnnxModel.h"

#include <algorithm>

namespace heddle {
namespace {

// What the dimension is called: its name, or where it is.
std::string nameOf(const OnnxValueInfo &input, size_t axis) {
  const std::string &param = input.dims[axis].param;
  return param.empty() ? input.name + ":" + std::to_string(axis) : param;
}

std::string openSizes(const OnnxGraph &graph) {
  std::vector<std::string> names;
  for (const OnnxValueInfo &input : graph.inputs)
    for (size_t axis = 0; axis < input.dims.size(); ++axis)
      if (std::string name = nameOf(input, axis);
          input.dims[axis].value < 0 && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(std::move(name));
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "" : ", ") + printable(name);
  return list;
}

} // namespace

Status fixSizes(OnnxModel &model, const std::vector<GivenSize> &sizes) {
  for (const GivenSize &given : sizes) {
    bool isFound = false;
    for (OnnxValueInfo &input : model.graph.inputs)
      for (size_t axis = 0; axis < input.dims.size(); ++axis) {
        OnnxDim &dim = input.dims[axis];
        bool isMeant = dim.param == given.name || input.name + ":" + std::to_string(axis) == given.name;
        if (dim.value >= 0 || !isMeant)
          continue;
        dim = {given.size, ""};
        isFound = true;
      }
    if (std::string open = openSizes(model.graph); !isFound)
      return invalidInput("--dim: no input has a dimension '" + printable(given.name) + "' without a size; " +
                          (open.empty() ? "all have theirs" : "those without are " + open));
  }
  return Status();
}

} // namespace heddle
