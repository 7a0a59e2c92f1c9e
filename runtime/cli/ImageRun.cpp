// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/cli/ImageRun.h"

#include "runtime/cli/ProgramParts.h"
#include "runtime/cli/TextRun.h"
#include "runtime/session/Mosaic.h"

#include <algorithm>
#include <cstring>

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
  options.longestEdge = from.longest_edge();
  options.tiles = from.tiles();
  options.minTiles = from.min_tiles();
  options.maxTiles = from.max_tiles();
  options.leastPixels = int64_t(from.least_pixels());
  options.mostPixels = int64_t(from.most_pixels());
  options.isAtMost = from.at_most();
  if (const package::GivenGrid *grid = metadata.given() ? metadata.given()->grid() : nullptr)
    shape = {grid->patch(), grid->frames(), grid->merge()};
  tiles = metadata.given() ? metadata.given()->tiles() : nullptr;
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

Status PixelReader::read(const std::string &file, PromptImage &outImage) const {
  if (wasInterrupted())
    return Status(StatusCode::Cancelled, "interrupted");
  Image image;
  HEDDLE_RETURN_IF_ERROR(readImageFile(file, image));
  if (tiles) {
    Mosaic mosaic(*tiles, image.height, image.width);
    HEDDLE_RETURN_IF_ERROR(
        computeMosaic(file, image, options, size, mosaic.fittedHeight(), mosaic.fittedWidth(), outImage.pixels));
    outImage.shape = {1, mosaic.tiles(), 3, size, size};
    outImage.size = {image.height, image.width};
    return Status();
  }
  if (shape.patch) {
    int64_t height = 0, width = 0;
    HEDDLE_RETURN_IF_ERROR(computePatches(file, image, options, shape, outImage.pixels, height, width));
    outImage.shape = {height * width, 3 * shape.frames * shape.patch * shape.patch};
    outImage.grid = {1, height, width};
    outImage.rows = height / shape.merge, outImage.columns = width / shape.merge;
    return Status();
  }
  HEDDLE_RETURN_IF_ERROR(
      computePixelTiles(file, image, options, size, outImage.pixels, outImage.rows, outImage.columns));
  outImage.shape = {outImage.rows * outImage.columns + 1, 3, size, size};
  return Status();
}

static Status readImages(OpenedModel &program, std::vector<PromptImage> &outImages) {
  PixelReader pixels(program.metadata());
  for (const std::string &file : program.options.images) {
    outImages.emplace_back();
    HEDDLE_RETURN_IF_ERROR(pixels.read(file, outImages.back()));
  }
  return Status();
}

Status PromptImages::read(OpenedModel &program) {
  const package::GivenRows *table = program.metadata().given();
  if (!table || program.options.images.empty())
    return Status();
  format = table->text();
  if (!heddle_program_parts.sight)
    return Status::failure("this program was linked without what reads images");
  return heddle_program_parts.sight->readImages(program, images);
}

// `text` with numbers in the places of {row} and {column}.
static std::string numbered(std::string text, int64_t row, int64_t column) {
  for (auto [place, number] : {std::pair{"{row}", row}, {"{column}", column}})
    if (size_t at = text.find(place); at != std::string::npos)
      text.replace(at, strlen(place), std::to_string(number));
  return text;
}

std::string PromptImages::written(const PromptImage &image) const {
  std::string text = image.rows && format->before_tiles() ? format->before_tiles()->str() : "";
  for (int64_t row = 1; row <= image.rows; ++row) {
    text += row > 1 ? format->between_rows()->str() : "";
    for (int64_t column = 1; column <= image.columns; ++column)
      text += numbered(format->tile()->str(), row, column);
  }
  if (image.rows)
    text += format->behind_tiles()->str();
  return text + (image.rows && format->tiled_whole() ? format->tiled_whole() : format->whole())->str();
}

Status PromptImages::write(const OpenedModel &program, std::string &text) const {
  if (images.empty())
    return Status();
  std::string marker = format ? format->marker()->str() : program.tokenText(program.metadata().given()->token());
  if (text.find(marker) == text.npos) {
    std::string before;
    for (size_t i = 0; i < images.size(); ++i)
      before += format ? format->unmentioned()->str() : marker + "\n"; // a line each, as LLaVA was trained to read them
    text.insert(0, before);
  }
  if (!format)
    return Status();
  RenderedChat rendered = {text, {}};
  size_t mentioned = 0;
  for (size_t at = text.find(marker); at != text.npos; at = text.find(marker, at + marker.size()))
    ++mentioned;
  if (mentioned != images.size())
    return invalidInput(heddle::format("the prompt has %zu times %s, but there %s %zu image%s", mentioned,
                                       marker.c_str(), images.size() == 1 ? "is" : "are", images.size(),
                                       images.size() == 1 ? "" : "s"));
  if (const package::Tokenizer *tokenizer = program.metadata().tokenizer();
      hasStart() && tokenizer && tokenizer->bos() >= 0)
    rendered.text.insert(rendered.text.rfind(marker) + marker.size(), program.tokenText(tokenizer->bos()));
  write(rendered);
  text = std::move(rendered.text) + (format->end() ? format->end()->str() : "");
  return Status();
}

void PromptImages::write(RenderedChat &rendered) const {
  if (!format)
    return;
  const std::string marker = format->marker()->str(), &from = rendered.text;
  RenderedChat out;
  size_t done = 0, range = 0, next = 0; // of the text, of what users wrote, of the images
  auto copyUpTo = [&](size_t end) {
    for (; range < rendered.untrusted.size() && rendered.untrusted[range].end <= end; ++range)
      out.untrusted.push_back({uint32_t(rendered.untrusted[range].begin - done + out.text.size()),
                               uint32_t(rendered.untrusted[range].end - done + out.text.size())});
    out.text.append(from, done, end - done);
    done = end;
  };
  for (size_t at = from.find(marker); at != from.npos && next < images.size(); at = from.find(marker, at + 1)) {
    bool isTyped = std::any_of(rendered.untrusted.begin(), rendered.untrusted.end(), [&](const TextRange &typed) {
      return at < typed.end && at + marker.size() > typed.begin;
    });
    if (isTyped || at < done)
      continue;
    copyUpTo(at);
    out.text += written(images[next++]);
    done += marker.size();
  }
  copyUpTo(from.size());
  rendered = std::move(out);
}

Status PromptImages::begin(OpenedModel &program, Session &session) {
  if (!program.metadata().given())
    return Status();
  HEDDLE_RETURN_IF_ERROR(GivenRows::create(*program.package, session, given));
  for (size_t i = 0; i < images.size(); ++i) {
    PromptImage &image = images[i];
    std::vector<StoredTensor> inputs = {floatTensor("pixel_values", image.shape, image.pixels)};
    if (image.grid[0])
      inputs.push_back(
          {"image_grid_thw", "I64", {1, 3}, reinterpret_cast<const uint8_t *>(image.grid.data()), sizeof image.grid});
    if (image.size[0])
      inputs.push_back(
          {"image_sizes", "I64", {1, 2}, reinterpret_cast<const uint8_t *>(image.size.data()), sizeof image.size});
    HEDDLE_RETURN_IF_ERROR(given->add(inputs, program.options.images[i]));
    std::vector<float>().swap(image.pixels);
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

const heddle::SightSupport heddle_part_sight = {heddle::readImages};
