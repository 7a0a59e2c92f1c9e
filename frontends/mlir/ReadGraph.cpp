// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/mlir/ReadGraph.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

namespace heddle {

// A file beside the module or in a folder below it.
static Expected<std::string> resolve(const std::string &modulePath, llvm::StringRef name) {
  bool climbs = llvm::any_of(llvm::make_range(llvm::sys::path::begin(name), llvm::sys::path::end(name)),
                             [](llvm::StringRef part) { return part == ".."; });
  if (name.empty() || llvm::sys::path::is_absolute(name) || climbs)
    return invalidInput(modulePath + ": heddle.files: '" + name.str() + "' must be a path below the module's folder");
  llvm::SmallString<256> path(llvm::sys::path::parent_path(modulePath));
  llvm::sys::path::append(path, name);
  return path.str().str();
}

Expected<ImportedGraph> readMlirGraph(MLIRContext &context, const std::string &path) {
  Expected<std::shared_ptr<MappedFile>> text = openShared(path);
  if (!text)
    return text.status();
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && message.empty())
      llvm::raw_string_ostream(message) << diagnostic.getLocation() << ": " << diagnostic;
    return success();
  });
  ImportedGraph graph;
  llvm::SourceMgr sources;
  llvm::StringRef bytes(reinterpret_cast<const char *>((*text)->data()), (*text)->size());
  // The parser reads one byte past the end.
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(bytes, path), llvm::SMLoc());
  graph.module = parseSourceFile<ModuleOp>(sources, &context);
  if (!graph.module)
    return invalidInput(message.empty() ? path + ": is no MLIR module" : message);
  if (auto files = (*graph.module)->getAttrOfType<ArrayAttr>("heddle.files"))
    for (Attribute name : files) {
      auto word = dyn_cast<StringAttr>(name);
      Expected<std::string> file = resolve(path, word ? word.getValue() : "");
      if (!file)
        return file.status();
      Expected<std::shared_ptr<MappedFile>> mapped = openShared(*file);
      if (!mapped)
        return mapped.status();
      graph.checkpoint.files.push_back(std::move(*mapped));
    }
  // Last: weights count the files that the module names.
  graph.checkpoint.files.push_back(std::move(*text));
  return graph;
}

} // namespace heddle
