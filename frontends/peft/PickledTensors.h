// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file of torch.save that holds a dict of tensors and nothing else: a ZIP archive whose members are stored as they are, of which data.pkl is the dict
// in Python's pickle protocol 2 (PEP 307) and data/N the numbers. Nothing that it names is run: the few names that tensors need are known, others are
// refused.
#ifndef HEDDLE_FRONTENDS_PEFT_PICKLEDTENSORS_H
#define HEDDLE_FRONTENDS_PEFT_PICKLEDTENSORS_H

#include "frontends/Checkpoint.h"
#include "frontends/ModelFiles.h"

namespace heddle {

// Adds the file's tensors, dense ones of f32, f16 or bf16, to `checkpoint`.
Status readPickledTensors(SharedFile file, Checkpoint &checkpoint);

} // namespace heddle

#endif
