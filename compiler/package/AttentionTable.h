// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the operands of each attention of a model lie while it runs: what BIN --attention-map recomputes its weights from.
#ifndef HEDDLE_COMPILER_PACKAGE_ATTENTIONTABLE_H
#define HEDDLE_COMPILER_PACKAGE_ATTENTIONTABLE_H

#include "compiler/codegen/Codegen.h"
#include "dialect/HeddleDialect.h"
#include "runtime/schema/package_generated.h"

namespace heddle {

using AttentionTable = flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<package::Attention>>>;

// The attentions of the module's step and encode, in the order in which they run; none where one of them has operands that the runtime does not
// find: of a device, of global tokens, and of latents whose queries are never folded.
AttentionTable attentionTable(flatbuffers::FlatBufferBuilder &b, mlir::ModuleOp module, const Target &target,
                              llvm::ArrayRef<KernelLaunch> launches);

} // namespace heddle

#endif
