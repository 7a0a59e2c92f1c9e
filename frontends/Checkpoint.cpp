// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/Checkpoint.h"
#include "frontends/Size.h"

namespace heddle {

Expected<std::shared_ptr<MappedFile>> mapFile(const std::string &path) {
  auto file = std::make_shared<MappedFile>();
  std::string why;
  if (!file->open(path, why))
    return errorIn(path, why);
  return file;
}

Expected<std::shared_ptr<MappedFile>> mapDescriptor(int descriptor, const std::string &path) {
  auto file = std::make_shared<MappedFile>();
  std::string why;
  if (!file->map(descriptor, path, why))
    return errorIn(path, why);
  return file;
}

const TensorInfo *Checkpoint::find(std::string_view name) const {
  auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

} // namespace heddle
