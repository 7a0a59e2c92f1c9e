// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models that see images as two GGUF files: the decoder's, and an "mmproj" (general.architecture clip) with the tower and what stands between. The
// second becomes what a Hugging Face folder says of the same: JSON that the rows of towers and joints read, and tensors under the names of their rules.
#ifndef HEDDLE_FRONTENDS_MMPROJ_MMPROJ_H
#define HEDDLE_FRONTENDS_MMPROJ_MMPROJ_H

#include "frontends/Family.h"
#include "frontends/ModelFiles.h"
#include "frontends/gguf/Gguf.h"
#include "frontends/mmproj/Projector.h"

namespace heddle {

// Adds the tower in `mmproj`, of one of `projectors`, to `model`, a decoder that was read from `text`. The decoder's logits stay what they are without images,
// scaled or capped as its file says, as in llama.cpp, whose graph of a decoder is one; classes of folders that see images leave that out.
Status joinMmproj(ModelFiles &mmproj, const GgufFile &text, const FamilyList &families, const ProjectorList &projectors,
                  Model &model);

} // namespace heddle

#endif
