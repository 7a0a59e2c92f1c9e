// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What fuzzers (FuzzMain.cpp) and mutation tests feed with bytes. Each says what is wrong with how they were dealt with; nothing
// is wrong if that is empty.
#ifndef HEDDLE_TEST_FUZZ_TARGETS_H
#define HEDDLE_TEST_FUZZ_TARGETS_H

#include <string>
#include <string_view>

namespace heddle::fuzz {

// A GGUF file.
std::string gguf(std::string_view bytes);

// A decoder's GGUF file and what sees images beside it, both without the numbers of their tensors: the first two bytes say where one ends and the other begins.
std::string mmproj(std::string_view bytes);

// config.json and model.safetensors of a folder: the first two bytes say where one ends and the other begins.
std::string huggingFace(std::string_view bytes);

// An ONNX file.
std::string onnx(std::string_view bytes);

// The files of a tokenizer (the first byte says which), read and used.
std::string tokenizerFiles(std::string_view bytes);

// A text through a tokenizer: the first byte says of which kind.
std::string tokenizerText(std::string_view bytes);

// A module in the dialect: parsed, printed, canonicalised.
std::string dialectText(std::string_view bytes);

// A safetensors file as the compiler reads it.
std::string safetensors(std::string_view bytes);

// A safetensors file as `--io` reads it.
std::string request(std::string_view bytes);

// A PNG or JPEG file, as --classify reads it.
std::string image(std::string_view bytes);

// A chat template, and the messages behind the first byte 1 if there is one.
std::string chatTemplate(std::string_view bytes);

// The metadata of a package.
std::string packageMetadata(std::string_view bytes);

// The rule for every message: one line, not empty, under 4 KB.
std::string wrongMessage(const std::string &message);

} // namespace heddle::fuzz

#endif
