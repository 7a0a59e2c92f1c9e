// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/cli/ImageRun.h"

#include "runtime/cli/ProgramParts.h"
#include "runtime/cli/TextRun.h"

#include <algorithm>

namespace heddle {
namespace {

bool hasInput(const TensorFunction &function, const char *name) {
  const std::vector<TensorDeclaration> &inputs = function.inputs();
  return std::any_of(inputs.begin(), inputs.end(), [&](const TensorDeclaration &input) { return input.name == name; });
}

} // namespace

StoredTensor floatTensor(const char *name, std::vector<int64_t> shape, const std::vector<float> &values) {
  return {name, "F32", std::move(shape), reinterpret_cast<const uint8_t *>(values.data()),
          values.size() * sizeof(float)};
}

Status Tower::create(OpenedModel &program, const char *input, const std::vector<const char *> &outputs) {
  size_t count = TensorFunction::namesOf(program.metadata()).size();
  for (size_t index = 0; index < count && !function; ++index) {
    HEDDLE_RETURN_IF_ERROR(
        TensorFunction::create(*program.package, index, program.options.threads, /*pool=*/nullptr, function));
    if (!hasInput(*function, input))
      function.reset();
  }
  for (const char *name : function ? outputs : std::vector<const char *>())
    for (output = 0; output < function->outputs().size(); ++output)
      if (function->outputs()[output].name == name)
        return Status();
  return Status(StatusCode::Unsupported,
                std::string("no function of this model takes ") + input + " and gives what is asked for");
}

Status Tower::call(const std::string &where, const std::vector<StoredTensor> &inputs, std::vector<float> &outValues) {
  std::vector<GraphOutput> computed;
  HEDDLE_RETURN_IF_ERROR(function->call(inputs, where, computed));
  const float *values = static_cast<const float *>(computed[output].data);
  outValues.assign(values, values + computed[output].shape.back());
  return Status();
}

PixelReader::PixelReader(const package::Package &metadata) : size(metadata.image_processing()->size()) {
  const package::ImageProcessing &from = *metadata.image_processing();
  options.height = from.height();
  options.width = from.width();
  options.shortestEdge = from.shortest_edge();
  options.filter = Resampling(from.filter());
  options.cropHeight = from.crop_height();
  options.cropWidth = from.crop_width();
  options.factor = from.factor();
  options.normalizes = from.mean() && from.mean()->size();
  for (unsigned i = 0; options.normalizes && i < 3; ++i) {
    options.mean[i] = from.mean()->Get(i);
    options.deviation[i] = from.deviation()->Get(i);
  }
}

Status PixelReader::read(const std::string &file, StoredTensor &outPixels) {
  if (wasInterrupted())
    return Status(StatusCode::Cancelled, "interrupted");
  Image image;
  HEDDLE_RETURN_IF_ERROR(readImageFile(file, image));
  HEDDLE_RETURN_IF_ERROR(computePixelValues(file, image, options, size, pixels));
  outPixels = floatTensor("pixel_values", {1, 3, size, size}, pixels);
  return Status();
}

Status ImageTower::create(const std::vector<const char *> &outputs) {
  return tower.create(program, "pixel_values", outputs);
}

Status ImageTower::see(const std::string &file, std::vector<float> &outValues) {
  StoredTensor values;
  HEDDLE_RETURN_IF_ERROR(pixels.read(file, values));
  return tower.call(file, {values}, outValues);
}

Status PromptImages::create(OpenedModel &program, Session &session) {
  if (!program.metadata().given())
    return Status();
  HEDDLE_RETURN_IF_ERROR(GivenRows::create(*program.package, session, given));
  if (program.options.images.empty())
    return Status();
  if (!heddle_program_parts.sight)
    return Status::failure("this program was linked without what reads images");
  return heddle_program_parts.sight->addImages(program, *given);
}

static Status addImages(OpenedModel &program, GivenRows &given) {
  PixelReader pixels(program.metadata());
  for (const std::string &file : program.options.images) {
    StoredTensor values;
    HEDDLE_RETURN_IF_ERROR(pixels.read(file, values));
    HEDDLE_RETURN_IF_ERROR(given.add({values}, file));
  }
  return Status();
}

Status TextTower::create(const std::vector<const char *> &outputs) {
  return tower.create(program, "input_ids", outputs);
}

Status TextTower::read(const std::string &text, size_t index, std::vector<float> &outValues) {
  if (wasInterrupted())
    return Status(StatusCode::Cancelled, "interrupted");
  const package::Package &metadata = program.metadata();
  std::vector<int32_t> ids;
  HEDDLE_RETURN_IF_ERROR(encodeText(program, text, index, /*addSpecial=*/true, ids, nullptr));
  shortenText(metadata, metadata.context(), ids);
  if (metadata.pads_texts() && metadata.tokenizer()->pad() < 0)
    return Status(StatusCode::Unsupported, "texts are padded, and this model's tokenizer has no token for that");
  if (metadata.pads_texts())
    ids.resize(metadata.context(), metadata.tokenizer()->pad());
  if (ids.empty())
    return invalidInput(format("text %zu is empty", index + 1));
  std::vector<int64_t> wide(ids.begin(), ids.end());
  StoredTensor tensor = {"input_ids",
                         "I64",
                         {1, int64_t(wide.size())},
                         reinterpret_cast<const uint8_t *>(wide.data()),
                         wide.size() * sizeof(int64_t)};
  return tower.call(format("text %zu", index + 1), {tensor}, outValues);
}

} // namespace heddle

const heddle::SightSupport heddle_part_sight = {heddle::addImages};
