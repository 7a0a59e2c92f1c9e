// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --help: what this model can do, and no more.
#include "runtime/cli/Options.h"
#include "runtime/cli/TextRun.h"
#include "runtime/model/ModelKind.h"
#include "runtime/session/Graph.h"
#include "runtime/session/TokenBatch.h"

namespace heddle {
namespace {

void addTensorLines(const std::string &title,
                    const flatbuffers::Vector<flatbuffers::Offset<package::GraphTensor>> &tensors, std::string &text) {
  text += "\n" + title + ":\n";
  for (const package::GraphTensor *tensor : tensors)
    text += "  " + tensor->name()->str() + ": " + dataTypeName(tensor->type()) + " " + declaredShape(*tensor) +
            (tensor->optional() ? ", optional\n" : "\n");
}

const char exitCodes[] = "\nExit codes: 0 done, 1 a failure of the program or the machine, 2 a mistake in the input.\n";

// What a model that sees images, or a graph that reads texts, is mostly called for.
std::string tensorExamples(const std::string &name, const Package &package) {
  auto has = [&](const char *option) { return isAvailable(*findOption(option, package), package); };
  std::string text;
  if (has("--similarity"))
    text += "  " + name + " --similarity --image photo.jpg \"a photo of a cat\" \"a photo of a dog\"\n";
  for (const char *command : {"--classify", "--embed"})
    if (has(command))
      text += "  " + name + " " + command +
              (package.metadata().tokenizer() ? " \"A text\" \"Another\"\n" : " photo.jpg scan.png\n");
  return text;
}

} // namespace

std::string graphHelp(const std::string &name, const Package &package) {
  const package::Package &metadata = package.metadata();
  std::string text = name + ": " + modelName(metadata) + ", compiled by Heddle. It " +
                     (takesArguments(package) ? taskOf(package) + ", and runs graphs: " : "runs a graph: ") +
                     "named tensors in, named tensors out.\n\n" + tensorExamples(name, package) + "  " + name +
                     " --io in.safetensors out.safetensors\n" + optionLines(package);
  for (const package::Graph *graph : *metadata.graphs()) {
    std::string of = metadata.graphs()->size() > 1 ? " of " + graph->name()->str() : "";
    addTensorLines("Inputs" + of, *graph->inputs(), text);
    addTensorLines("Outputs" + of, *graph->outputs(), text);
  }
  return text + exitCodes;
}

namespace {

// What an encoder that reads texts is mostly called for.
std::string textExamples(const std::string &name, const Package &package) {
  std::string text;
  for (const char *command : {"--embed", "--classify", "--rerank", "--token-classify"})
    if (isAvailable(*findOption(command, package), package))
      text += "  " + name + " " + command + " \"A text\" \"Another\"\n";
  if (const Option &fill = *findOption("--fill-mask", package); isAvailable(fill, package))
    text += "  " + name + " --fill-mask \"Paris is the " + maskSpelling(package) + " of France.\"\n";
  if (isAvailable(*findOption("--answer", package), package))
    text += "  " + name + " --answer --question \"Who wrote it?\" < article.txt\n";
  return text;
}

} // namespace

std::string encoderHelp(const std::string &name, const Package &package) {
  const package::Package &metadata = package.metadata();
  std::string inputs;
  for (const char *input : encoderInputs(*metadata.encoder()))
    inputs += (inputs.empty() ? "" : ", ") + std::string(input);
  const package::ImageInput *image = metadata.encoder()->image();
  std::string what = image ? format("images of %u by %u pixels", image->size(), image->size())
                           : format("sequences of up to %u tokens", metadata.context());
  return name + ": " + modelName(metadata) + ", compiled by Heddle. It encodes " + what +
         ": named tensors in, named tensors out.\n\n  " + name + " --io in.safetensors out.safetensors\n" +
         (seesFiles(package) ? tensorExamples(name, package) : textExamples(name, package)) + optionLines(package) +
         "\nTensors of --io: " + inputs + "; " + outputNames(*metadata.encoder(), ", ") + "\n" + exitCodes;
}

std::string soundHelp(const std::string &name, const Package &package) {
  const package::Package &metadata = package.metadata();
  const package::AudioInput &audio = *metadata.encoder()->audio();
  return name + ": " + modelName(metadata) + ", compiled by Heddle. It writes what is said in sound of " +
         format("%u Hz, window after window of %g seconds, each in up to %u tokens.\n\n  ", audio.sampling_rate(),
                double(audio.window_samples()) / audio.sampling_rate(), metadata.context()) +
         name + " --audio speech.wav\n" + optionLines(package) + "\nWithout options: " + samplingDefaults(metadata) +
         "\n\nTensors of --io: input_features, decoder_input_ids; " +
         "logits, last_hidden_state, encoder_last_hidden_state; with -n ids, generated_logits\n" + exitCodes;
}

std::string generatingHelp(const std::string &name, const Package &package) {
  const package::Package &metadata = package.metadata();
  bool hasTokenizer = heddle::hasTokenizer(metadata);
  std::string text = name + ": " + modelName(metadata) + ", compiled by Heddle. It ";
  if (isEncoderDecoder(package))
    text += "answers a text of up to " + std::to_string(metadata.encoder()->context()) + " tokens with one of up to " +
            std::to_string(metadata.context()) + ".\n\n";
  else
    text += "continues a prompt of up to " + std::to_string(metadata.context()) + " tokens.\n\n";
  if (hasTokenizer && isEncoderDecoder(package))
    text += "  " + name + " \"The house is wonderful.\"\n  " + name + " --beam 4 --num-return-sequences 2 < text.txt\n";
  else if (hasTokenizer && seesFiles(package))
    text += "  " + name + " --image photo.jpg \"What is this?\"\n";
  if (hasTokenizer && !isEncoderDecoder(package))
    text += "  " + name + " \"The capital of France is\"\n  echo \"Once upon a time\" | " + name +
            " -n 100 --temp 0.8 --seed 7\n";
  text += "  " + name + " --prompt-ids 1,2,3 -n 24 --temp 0 --ignore-eos --print-ids\n" + optionLines(package);
  text += "\nWithout options: " + samplingDefaults(metadata) + "\n";
  std::string inputs;
  for (const char *input : inputNames(metadata))
    inputs += (inputs.empty() ? "" : ", ") + std::string(input);
  text += isEncoderDecoder(package)
              ? "\nTensors of --io: input_ids, attention_mask, decoder_input_ids; logits, last_hidden_state, "
                "encoder_last_hidden_state; with -n ids, generated_logits\n"
              : "\nTensors of --io: " + inputs +
                    "; logits, last_hidden_state; with -n ids, "
                    "generated_logits\n";
  return text + exitCodes;
}

} // namespace heddle
