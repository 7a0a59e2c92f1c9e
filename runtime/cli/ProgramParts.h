// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What of the command line a program may be linked without (runtime/README.md, "Parts"): the commands of models of another kind. Nothing but the table
// names what runs a command of a part, so that what the table lacks is not linked.
#ifndef HEDDLE_RUNTIME_CLI_PROGRAMPARTS_H
#define HEDDLE_RUNTIME_CLI_PROGRAMPARTS_H

#include "runtime/cli/Cli.h"
#include "runtime/session/GivenRows.h"

#include <array>
#include <initializer_list>

namespace heddle {

struct CommandRun {
  Command command;
  Status (*run)(OpenedModel &program);
};

// The commands of models of one kind.
struct CommandPart {
  bool (*isOf)(const package::Package &metadata);                       // whether the model is of the kind
  std::string (*help)(const std::string &name, const Package &package); // the text of --help; null: another part has it
  const CommandRun *commands;
  size_t numCommands;
};

// An image beside a prompt: its numbers, and how many rows and columns of tiles it was cut into; 0: none. Of an image of any size its tokens are these.
struct PromptImage {
  std::vector<float>
      pixels; // (images, 3, size, size), the tiles row by row, then the whole; of images of any size (patches, patch width); of one
              // seen whole and in tiles (1, images, 3, size, size), the whole first
  std::vector<int64_t> shape;
  int64_t rows = 0, columns = 0;
  std::array<int64_t, 3> grid = {}; // of an image of any size: 1, rows and columns of patches
  std::array<int64_t, 2> size = {}; // of one that is seen whole and in tiles: its height and width in pixels
};

// Files of images beside a prompt.
struct SightSupport {
  // The numbers of the command line's files, in their order.
  Status (*readImages)(OpenedModel &program, std::vector<PromptImage> &outImages);
};

} // namespace heddle

// Names of the linker; constants that are initialised as such.
// NOLINTBEGIN(readability-identifier-naming, bugprone-dynamic-static-initializers)
extern "C" {

// Where two parts have a command of a model, the first one's counts.
struct heddle_program_parts_table {
  const heddle::CommandPart *commands[8]; // null: not linked
  const heddle::SightSupport *sight;      // null: the model sees no images beside a prompt
};
extern const heddle_program_parts_table heddle_program_parts;

extern const heddle::CommandPart heddle_part_speech;     // of models that hear
extern const heddle::CommandPart heddle_part_generating; // of those that continue or answer a text
extern const heddle::CommandPart heddle_part_chat;       // of those with a chat template
extern const heddle::CommandPart heddle_part_images;    // of those that read files of images, and compare or embed them
extern const heddle::CommandPart heddle_part_texts;     // of encoders of texts
extern const heddle::CommandPart heddle_part_encoding;  // of encoders of anything
extern const heddle::CommandPart heddle_part_graphs;    // of graphs
extern const heddle::CommandPart heddle_part_attention; // of those whose attention can be shown
extern const heddle::SightSupport heddle_part_sight;

} // extern "C"
// NOLINTEND(readability-identifier-naming, bugprone-dynamic-static-initializers)

#endif
