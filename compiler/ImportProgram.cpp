// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which reader a model has, and the options that only some kinds of files take.

#include "compiler/Program.h"
#include "frontends/read/ReadModel.h"

#include "llvm/Support/Path.h"

using namespace mlir;
using namespace heddle;

static bool isMlir(StringRef path) {
  return llvm::sys::path::extension(path) == ".mlir";
}

bool heddle::holdsGraph(const CompileOptions &options) {
  return isMlir(options.model) || isOnnx(options.model);
}

Status heddle::importProgram(const CompileOptions &options, const Target &target, function_ref<MLIRContext &()> context,
                             Program &program) {
  program.pipeline = options.pipeline;
  program.files = ModelFiles(options.model);
  bool isGraph = isMlir(options.model) || isOnnx(program.files);
  if (isGraph && !(options.mergedAdapters.empty() && options.adapters.empty()))
    return errorIn(
        options.model,
        "--merge-adapter, --adapter: an adapter names the modules of a Hugging Face model; expected a Hugging "
        "Face folder or a GGUF file");
  if (!options.dims.empty() && !isOnnx(program.files))
    return errorIn(options.model, "--dim: expected an ONNX file, whose inputs leave sizes open");
  if (!options.mmproj.empty()) {
    if (isGraph)
      return errorIn(options.model,
                     "--mmproj: expected a GGUF file of a decoder, beside which the other one sees images");
    if (options.textOnly || options.task == Task::Encode)
      return errorIn(options.model, "--mmproj: what sees images has no part in --text-only and --task=encode");
    program.mmproj = ModelFiles(options.mmproj);
  }
  if (isMlir(options.model))
    return importMlir(options, target, context, program);
  return isGraph ? importOnnx(options, context, program) : importDecoder(options, target, context, program);
}
