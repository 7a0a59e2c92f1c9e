// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/Checkpoint.h"

namespace heddle {

Expected<std::shared_ptr<MappedFile>> openShared(const std::string &path) {
  auto file = std::make_shared<MappedFile>();
  HEDDLE_RETURN_IF_ERROR(file->open(path));
  return file;
}

Expected<std::shared_ptr<MappedFile>> mapShared(int descriptor, const std::string &path) {
  auto file = std::make_shared<MappedFile>();
  HEDDLE_RETURN_IF_ERROR(file->map(descriptor, path));
  return file;
}

const TensorInfo *Checkpoint::find(std::string_view name) const {
  auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

} // namespace heddle
