// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The files that one model is read from: the file or the folder that the user names, and what lies beside the file or in the folder. Each
// file is opened once, so that weights, config, tokenizer and the SHA-256 that a package records are of the same bytes, whatever happens
// to the names meanwhile.
//
// Names may come from the files themselves (shards, external data, parts), which nobody vouches for. One rule holds for all of them: a name
// is a relative path without "..", and the file that it leads to lies in the model's folder. A symbolic link may also lead into the folder
// that the model's own file lies in once its links are followed: in a cache of Hugging Face, snapshots/REVISION/model.onnx and
// snapshots/REVISION/model.onnx_data are both links into blobs/.
#ifndef HEDDLE_FRONTENDS_MODELFILES_H
#define HEDDLE_FRONTENDS_MODELFILES_H

#include "bytes/Expected.h"
#include "bytes/MappedFile.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace heddle {

using SharedFile = std::shared_ptr<MappedFile>;

class ModelFiles {
public:
  ModelFiles() = default;
  // `model` as the user names it: a file, a folder, or nothing that is there. A folder's own file is its config.json.
  explicit ModelFiles(std::string model);

  const std::string &model() const { return modelPath; }
  bool isThere() const { return hasModel; }
  bool isFolder() const { return hasFolder; }
  // Of the model's file, without its folder.
  std::string fileName() const { return modelPath.substr(prefix.size()); }
  // The path of a file of that name, for messages.
  std::string pathOf(const std::string &name) const { return prefix + name; }
  // Whether something has that name.
  bool has(const std::string &name) const;

  // The file that the user names. Messages begin with its path.
  Expected<SharedFile> open();
  // The file called `name`.
  Expected<SharedFile> open(const std::string &name);
  // The same of bytes that have no format of their own, so that any file of the machine would do: one that also has another name (a hard
  // link) is refused.
  Expected<SharedFile> openRaw(const std::string &name);

  // All that was opened, by path.
  std::vector<SharedFile> opened() const;

private:
  Expected<SharedFile> openBelow(const std::string &name, bool isRaw);
  Status checkPlace(const std::string &path, const std::string &real) const;

  std::string modelPath, prefix; // prefix: the folder's path with its '/', "" for the current one
  std::string realFolder;        // without links; "" where there is none
  std::string realHome; // the folder of the model's own file, once its links are followed; "" where there is none
  bool hasModel = false, hasFolder = false;
  std::map<std::string, SharedFile> files; // by path
};

// Whether `name` is a relative path of plain names, without "..".
bool isPathBelow(const std::string &name);

} // namespace heddle

#endif
