// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/import/GraphImporter.h"

llvm::ArrayRef<heddle::OpRow> heddle::quantizationOps() { return {}; }
