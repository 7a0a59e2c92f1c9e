// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/Checkpoint.h"

namespace heddle {

// The name of a file may come from another one (a shard, a part of a split model): a message shows it as it does such text.
static Status shown(Status opened, const std::string &path) {
  if (opened.isOk())
    return opened;
  std::string message = errorIn(path, opened.message().substr(path.size() + 2)).message();
  return std::move(opened).saying(message);
}

Expected<std::shared_ptr<MappedFile>> openShared(const std::string &path) {
  auto file = std::make_shared<MappedFile>();
  HEDDLE_RETURN_IF_ERROR(shown(file->open(path), path));
  return file;
}

Expected<std::shared_ptr<MappedFile>> mapShared(int descriptor, const std::string &path) {
  auto file = std::make_shared<MappedFile>();
  HEDDLE_RETURN_IF_ERROR(shown(file->map(descriptor, path), path));
  return file;
}

const TensorInfo *Checkpoint::find(std::string_view name) const {
  auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

} // namespace heddle
