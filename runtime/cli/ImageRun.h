// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files of images, and texts beside them, as a model's functions over named tensors take them: one at a time, so that memory is that of one.
#ifndef HEDDLE_RUNTIME_CLI_IMAGERUN_H
#define HEDDLE_RUNTIME_CLI_IMAGERUN_H

#include "runtime/cli/Cli.h"
#include "runtime/cli/ProgramParts.h"
#include "runtime/image/PixelValues.h"
#include "runtime/session/GivenRows.h"
#include "runtime/session/TensorFunction.h"
#include "runtime/text/template/Template.h"

namespace heddle {

// `values` as a tensor that is called `name`.
StoredTensor floatTensor(const char *name, std::vector<int64_t> shape, const std::vector<float> &values);

// A function of the model with the input that it is called for, and the one output that counts.
class Tower {
public:
  // The function that has `input`; of `outputs`, the first that it gives is taken.
  Status create(OpenedModel &program, const char *input, const std::vector<const char *> &outputs);
  // The output for one input of `shape`, whose first dimension is 1: its numbers, or, of an output of tokens, those of the first one.
  Status call(const std::string &where, const std::vector<StoredTensor> &inputs, std::vector<float> &outValues);

  const std::vector<TensorDeclaration> &inputs() const { return function->inputs(); }

private:
  std::unique_ptr<TensorFunction> function;
  size_t output = 0; // of the function's
};

// Files of images as pixel_values.
class PixelReader {
public:
  explicit PixelReader(const package::Package &metadata);
  // The pixel_values of one image, (1, 3, size, size), valid until the next.
  Status read(const std::string &file, StoredTensor &outPixels);
  // The same with its tiles.
  Status read(const std::string &file, PromptImage &outImage) const;

private:
  int64_t size;
  PixelOptions options;
  PatchShape shape;                           // of images of any size
  const package::GivenTiles *tiles = nullptr; // of images that are seen whole and in tiles
  std::vector<float> pixels;                  // (3, size, size)
};

class ImageTower {
public:
  explicit ImageTower(OpenedModel &program) : program(program), pixels(program.metadata()) {}
  Status create(const std::vector<const char *> &outputs);
  Status see(const std::string &file, std::vector<float> &outValues);

private:
  OpenedModel &program;
  Tower tower;
  PixelReader pixels;
};

// The images of a command line as a session's prompts name them.
class PromptImages {
public:
  // Reads the files; nothing where the model sees none.
  Status read(OpenedModel &program);
  // Writes the images into a prompt: where it mentions them, or before it where it mentions none.
  Status write(const OpenedModel &program, std::string &text) const;
  // Whether the token that a text starts with is in such a prompt.
  bool hasStart() const { return format && format->starts_behind(); }
  // The same of a conversation, whose template mentions them; what users wrote does not.
  void write(RenderedChat &rendered) const;
  // Shows the images to the model; their numbers are not needed any more.
  Status begin(OpenedModel &program, Session &session);
  // Each token of an image in a prompt becomes the ids of what the model sees of the next one.
  Status place(std::vector<int32_t> &ids) const { return given ? given->expand(ids) : Status(); }

private:
  std::string written(const PromptImage &image) const;

  const package::GivenText *format = nullptr; // null: a token stands for an image
  std::vector<PromptImage> images;
  std::unique_ptr<GivenRows> given;
};

class TextTower {
public:
  explicit TextTower(OpenedModel &program) : program(program) {}
  Status create(const std::vector<const char *> &outputs);
  // Text `index`, which messages count from 1.
  Status read(const std::string &text, size_t index, std::vector<float> &outValues);

private:
  OpenedModel &program;
  Tower tower;
};

} // namespace heddle

#endif
