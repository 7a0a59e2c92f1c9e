// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kind of model a package describes. The command line asks for it, and the link of a program, which takes what that kind needs.
#ifndef HEDDLE_RUNTIME_MODEL_MODELKIND_H
#define HEDDLE_RUNTIME_MODEL_MODELKIND_H

#include "runtime/schema/package_generated.h"

#include <string_view>

namespace heddle {

inline bool isGraph(const package::Package &metadata) {
  return metadata.task() == package::Task::Graph;
}

inline bool isEncoder(const package::Package &metadata) {
  return metadata.task() == package::Task::Encode;
}

inline bool isEncoderDecoder(const package::Package &metadata) {
  return metadata.task() == package::Task::Seq2Seq;
}

inline bool generates(const package::Package &metadata) {
  return metadata.task() == package::Task::Generate || isEncoderDecoder(metadata);
}

// Whether the source of an encoder-decoder is sound.
inline bool hears(const package::Package &metadata) {
  return isEncoderDecoder(metadata) && metadata.encoder()->audio();
}

// Whether it reads files of images.
inline bool seesFiles(const package::Package &metadata) {
  return metadata.image_processing();
}

inline bool hasTokenizer(const package::Package &metadata) {
  const package::Tokenizer *tokenizer = metadata.tokenizer();
  return tokenizer && tokenizer->model() != package::TokenizerModel::None;
}

// Whether texts, or files of images, are made into vectors by functions over named tensors.
inline bool embedsTensors(const package::Package &metadata) {
  return (seesFiles(metadata) && !generates(metadata)) || (isGraph(metadata) && hasTokenizer(metadata));
}

inline bool encodesTexts(const package::Package &metadata) {
  return isEncoder(metadata) && !seesFiles(metadata) && hasTokenizer(metadata);
}

// Whether messages can be written as its chat template says.
inline bool chats(const package::Package &metadata) {
  return generates(metadata) && !isEncoderDecoder(metadata) && hasTokenizer(metadata) &&
         metadata.tokenizer()->chat_template() && metadata.tokenizer()->chat_template()->size();
}

// Targets: "x86-64-v3", "opencl", "cuda:sm_80".
constexpr std::string_view cudaTargetPrefix = "cuda:";

inline bool isCudaTarget(std::string_view target) {
  return target.substr(0, cudaTargetPrefix.size()) == cudaTargetPrefix;
}

inline bool isDeviceTarget(std::string_view target) {
  return target == "opencl" || isCudaTarget(target);
}

inline bool runsOnDevice(const package::Package &metadata) {
  return metadata.target() && isDeviceTarget(metadata.target()->string_view());
}

// Whether pixel_values are among its inputs.
inline bool takesPixels(const package::Package &metadata) {
  if (metadata.encoder())
    return metadata.encoder()->image();
  for (unsigned i = 0; metadata.graphs() && i < metadata.graphs()->size(); ++i)
    for (const package::GraphTensor *input : *metadata.graphs()->Get(i)->inputs())
      if (input->name()->string_view() == "pixel_values")
        return true;
  return false;
}

// Whether a map of its attention is made: its tokens have names, and it is known where the operands lie while it runs.
inline bool showsAttention(const package::Package &metadata) {
  return metadata.attentions() && metadata.attentions()->size() && !hears(metadata) && !takesPixels(metadata);
}

} // namespace heddle

#endif
