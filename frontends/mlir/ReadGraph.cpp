// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/mlir/ReadGraph.h"

#include "dialect/HeddleDialect.h"
#include "frontends/mlir/MlirStatus.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

namespace heddle {

// MLIR's parser calls itself for each bracket within another one, and its stack ends.
constexpr size_t maxDepth = 256;

// Where brackets are nested deeper than that; npos where they are not.
static size_t tooDeep(llvm::StringRef text) {
  size_t depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '"') { // a string ends in its line
      for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
        at += text[at] == '\\';
    } else if (text.substr(at, 2) == "//") {
      at = text.find('\n', at);
      if (at == llvm::StringRef::npos)
        break;
    } else if (text.substr(at, 2) == "->" || text.substr(at, 2) == ">=") {
      ++at;
    } else if (c == '(' || c == '[' || c == '{' || c == '<') {
      if (++depth > maxDepth)
        return at;
    } else if (c == ')' || c == ']' || c == '}' || c == '>') {
      depth -= depth > 0;
    }
  }
  return llvm::StringRef::npos;
}

Expected<OwningOpRef<ModuleOp>> readMlirModule(MLIRContext &context, ModelFiles &files) {
  const std::string &path = files.model();
  Expected<SharedFile> text = files.open();
  if (!text)
    return text.status();
  Status said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && said.isOk())
      said = statusOf(diagnostic);
    return success();
  });
  llvm::SourceMgr sources;
  llvm::StringRef bytes(reinterpret_cast<const char *>((*text)->data()), (*text)->size());
  if (size_t at = tooDeep(bytes); at != llvm::StringRef::npos)
    return errorAt(path, at, "brackets nested deeper than " + std::to_string(maxDepth));
  // The parser reads one byte past the end.
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(bytes, path), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return said.isOk() ? errorIn(path, "is no MLIR module") : std::move(said).as(StatusCode::InvalidInput);
  return module;
}

// The first weight that lies in none of the files; empty if each lies in one.
static std::string strayWeight(ModuleOp module, size_t numFiles) {
  std::string stray;
  module.walk([&](WeightOp weight) {
    AttrTypeWalker walker;
    walker.addWalk([&](StorageAttr storage) {
      if (stray.empty() && (storage.getFile() < 0 || storage.getFile() >= int64_t(numFiles)))
        stray = ("weight '" + printable(weight.getName().str()) + "' lies in file " +
                 std::to_string(storage.getFile()) + ", and heddle.files names " + std::to_string(numFiles));
    });
    walker.walk(weight->getAttrDictionary());
  });
  return stray;
}

Expected<ImportedGraph> readMlirGraph(MLIRContext &context, ModelFiles &files) {
  const std::string &path = files.model();
  Expected<OwningOpRef<ModuleOp>> module = readMlirModule(context, files);
  if (!module)
    return module.status();
  ImportedGraph graph;
  graph.module = std::move(*module);
  if (auto names = (*graph.module)->getAttrOfType<ArrayAttr>("heddle.files"))
    for (Attribute attribute : names) {
      auto word = dyn_cast<StringAttr>(attribute);
      std::string name = word ? word.str() : "";
      if (!isPathBelow(name))
        return errorIn(path, "heddle.files: '" + printable(name) + "' must be a path below the module's folder");
      Expected<SharedFile> mapped = files.openRaw(name);
      if (!mapped)
        return mapped.status();
      graph.checkpoint.files.push_back(std::move(*mapped));
    }
  if (std::string stray = strayWeight(*graph.module, graph.checkpoint.files.size()); !stray.empty())
    return errorIn(path, stray + "; where the module was written from a model, 'heddle compile MODEL --resume=" + path +
                             "' goes on from it");
  return graph;
}

} // namespace heddle
