// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/mmproj/Mmproj.h"

#include "bytes/Status.h"
#include "frontends/huggingface/Config.h"
#include "frontends/huggingface/HuggingFace.h"
#include "frontends/huggingface/ImageProcessor.h"
#include "frontends/mmproj/ClipConfig.h"
#include "frontends/mmproj/ClipTensors.h"
#include "frontends/mmproj/Projector.h"

#include <algorithm>

namespace heddle {

namespace {

// The row of the file's projector.
Expected<const Projector *> projectorOf(const GgufFile &file, const ProjectorList &projectors) {
  Expected<std::string_view> architecture = file.string("general.architecture");
  if (!architecture)
    return architecture.status();
  if (*architecture != clipArchitecture)
    return errorIn(file.path(), "general.architecture is '" + printable(*architecture, 64) +
                                    "', expected clip, of a file that holds what sees images");
  auto isSet = [&](const char *key, bool absent) {
    Expected<bool> value = file.contains(key) ? file.boolean(key) : Expected<bool>(absent);
    return value && *value;
  };
  bool hears = isSet("clip.has_audio_encoder", false);
  if (!isSet("clip.has_vision_encoder", !hears))
    return errorIn(file.path(),
                   hears
                       ? "holds what hears (clip.has_audio_encoder), which is not supported; expected what sees images"
                       : "holds nothing that sees images: clip.has_vision_encoder is false")
        .as(StatusCode::Unsupported);
  const char *key = file.contains("clip.vision.projector_type") ? "clip.vision.projector_type" : "clip.projector_type";
  Expected<std::string_view> type =
      file.contains(key) ? file.string(key) : Expected<std::string_view>("mlp"); // of the oldest files
  if (!type)
    return type.status();
  const Projector *projector = findProjector(projectors, *type, file.tensors());
  if (!projector)
    return errorIn(file.path(), std::string(key) + " is '" + printable(*type, 64) +
                                    "', which is not supported; known: " + knownProjectors(projectors))
        .as(StatusCode::Unsupported);
  return projector;
}

// The id that stands for rows of an image, and its text, where another token than the projector's does.
struct ImageToken {
  int64_t id = 0;
  std::string standsFor;
};
Expected<ImageToken> imageTokenOf(const GgufFile &text, const Projector &projector) {
  if (!text.contains("tokenizer.ggml.tokens"))
    return errorIn(text.path(), "has no tokens (tokenizer.ggml.tokens), of which one stands for an image");
  Expected<std::vector<std::string_view>> tokens = text.strings("tokenizer.ggml.tokens");
  if (!tokens)
    return tokens.status();
  auto found = std::find(tokens->begin(), tokens->end(), projector.token);
  if (found != tokens->end())
    return ImageToken{found - tokens->begin(), ""};
  const char *unknown = "tokenizer.ggml.unknown_token_id";
  if (projector.mayLackToken && text.contains(unknown)) {
    Expected<int64_t> id = text.integer(unknown);
    if (!id)
      return id.status();
    if (*id >= 0 && *id < int64_t(tokens->size()))
      return ImageToken{*id, std::string((*tokens)[size_t(*id)])};
  }
  return errorIn(text.path(), std::string("has no token '") + projector.token +
                                  "', which stands for an image of projector_type '" + projector.type +
                                  "': the mmproj is of another model");
}

// What can be said of the two files before anything else is read.
Status checkFit(const GgufFile &file, const GgufFile &text, const Projector &projector, const ModelConfig &decoder) {
  std::string known;
  bool fits = projector.decoders.count == 0;
  for (const char *name : projector.decoders) {
    known += (known.empty() ? "" : ", ") + std::string(name);
    fits |= name == decoder.architecture;
  }
  if (!fits)
    return errorIn(file.path(), std::string("is of projector_type '") + projector.type + "', but " + text.path() +
                                    " is of " + decoder.architecture + ", expected " + known);
  if (decoder.encodes())
    return errorIn(text.path(), "encodes, which is not supported of a model that sees images")
        .as(StatusCode::Unsupported);
  const char *key = "clip.vision.projection_dim";
  if (!projector.hasTextWidth || !file.contains(key))
    return Status();
  Expected<int64_t> width = file.integer(key);
  if (!width)
    return width.status();
  if (*width != decoder.hiddenSize)
    return errorIn(file.path(), std::string(key) + " is " + std::to_string(*width) + ", but " + text.path() + " has " +
                                    fieldName(decoder, "hidden_size") + " " + std::to_string(decoder.hiddenSize) +
                                    ": the two are of different models");
  return Status();
}

// How prompts mention images where the vocabulary has no token for them: the mention becomes the token that stands for their rows.
void mention(const Projector &projector, const ImageToken &token, SeenText &text) {
  if (token.standsFor.empty())
    return;
  text.marker = projector.token;
  text.unmentioned = text.marker + "\n";
  text.whole = token.standsFor;
}

} // namespace

Status joinMmproj(ModelFiles &mmproj, const GgufFile &text, const FamilyList &families, const ProjectorList &projectors,
                  Model &model) {
  Expected<GgufFile> file = GgufFile::open(mmproj);
  if (!file)
    return file.status();
  Expected<const Projector *> projector = projectorOf(*file, projectors);
  if (!projector)
    return projector.status();
  HEDDLE_RETURN_IF_ERROR(checkFit(*file, text, **projector, model.config));
  Expected<ImageToken> token = imageTokenOf(text, **projector);
  if (!token)
    return token.status();
  ClipConfig clip(*file, **projector);
  HEDDLE_RETURN_IF_ERROR(clip.read(token->id));
  Expected<JsonFile> json = clip.config();
  if (!json)
    return json.status();
  JsonObject top(*json, file->path());
  auto joint = std::find_if(families.begin(), families.end(), [&](const Family *family) {
    return family->towerModel && family->modelType == std::string_view((*projector)->joint);
  });
  HEDDLE_RETURN_IF_ERROR(joinTower(top, **joint, families, model.config));
  ModelConfig &tower = *model.config.tower;
  tower.hasFinalNorm &= file->tensors().find("v.post_ln.weight") != nullptr;
  mention(**projector, *token, tower.seen.text);
  Expected<JsonFile> processor = clip.processor();
  if (!processor)
    return processor.status();
  JsonObject processing(*processor, file->path());
  HEDDLE_RETURN_IF_ERROR(readImageProcessor(processing, tower));
  Expected<Checkpoint> tensors = takeClipTensors(*file, **projector, tower);
  if (!tensors)
    return tensors.status();
  Model seeing{tower, std::move(*tensors), mmproj.model(), nullptr};
  noteStoredOrder(seeing);
  HEDDLE_RETURN_IF_ERROR(validate(seeing, file->path()));
  auto first = static_cast<uint32_t>(model.checkpoint.files.size());
  for (auto &[name, tensor] : seeing.checkpoint.tensors)
    tensor.file += first;
  model.checkpoint.files.insert(model.checkpoint.files.end(), seeing.checkpoint.files.begin(),
                                seeing.checkpoint.files.end());
  model.checkpoint.tensors.merge(seeing.checkpoint.tensors);
  for (const auto &[name, tensor] : seeing.checkpoint.tensors) // those that are left
    return errorIn(model.checkpoint.files[model.checkpoint.find(name)->file]->path(),
                   "tensor '" + printable(name) + "' is one of what sees images, which lies in " + file->path())
        .ofTensor(name);
  return Status();
}

} // namespace heddle
