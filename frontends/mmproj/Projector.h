// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is known of a clip.projector_type: a row of a table. The rows are in frontends/families/Projectors.cpp.
#ifndef HEDDLE_FRONTENDS_MMPROJ_PROJECTOR_H
#define HEDDLE_FRONTENDS_MMPROJ_PROJECTOR_H

#include "frontends/Family.h"
#include "frontends/gguf/Gguf.h"

namespace heddle {

class ClipConfig;

// Objects that a folder would hold: vision_config, the config around it, and that of its processor of images.
enum class ClipPart : uint8_t { Vision, Joint, Processor };

// An integer of the file, under "clip.vision.", and what a folder calls it.
struct ClipKey {
  const char *key;
  ClipPart part;
  const char *json;
  bool isRequired = false;
};

// A name in the file that is another part's elsewhere, and that of the rules for it, both without ".weight" and ".bias".
struct ClipName {
  const char *gguf, *rule;
};

struct Projector {
  const char *type = nullptr;
  const char *mark =
      nullptr; // of rows with one type, the one that is meant where the file has this tensor; null: where it has no other's
  const char *joint = nullptr, *tower = nullptr; // model_type of the rows
  const char *token = nullptr;                   // that stands for an image's rows in prompts
  bool mayLackToken = false;      // the vocabulary may be without it: the one for what is unknown stands for them then
  Listing<const char *> decoders; // model_type of those that it may stand before; none: any
  const char *gelu = nullptr;     // the activation that clip.use_gelu means
  double eps = 0.0;               // that the tower's norms have whatever a config says; 0: the file says it
  Listing<ClipKey> keys;          // beside the common ones
  Listing<ClipName> names = {};
  // Members of the config around, and of the processor's; '$' stands for clip.vision.image_size.
  const char *joined = "", *processed = "";
  bool hasTextWidth = true; // clip.vision.projection_dim is the decoder's hidden_size
  const char *plusOne =
      nullptr; // a vector of norm weights that is stored as it multiplies, where a folder has it less one
  bool permutes =
      false; // rows of queries and keys are in the order that rotates neighbours, where the tower rotates halves
  void (*rest)(ClipConfig &config) = nullptr;
};

using ProjectorList = Listing<Projector>;

// The row of a file with these tensors; null where there is none.
const Projector *findProjector(const ProjectorList &projectors, std::string_view type, const Checkpoint &tensors);
// "gemma3, idefics3, …", for messages.
std::string knownProjectors(const ProjectorList &projectors);

} // namespace heddle

#endif
