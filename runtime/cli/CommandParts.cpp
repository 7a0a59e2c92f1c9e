// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The commands of each kind of model. Each part lies in a section of its own, which is linked where a table of parts names it.
#include "runtime/cli/Options.h"
#include "runtime/cli/ProgramParts.h"
#include "runtime/model/ModelKind.h"

using namespace heddle;

template <size_t count>
static constexpr CommandPart partOf(bool (*isOf)(const package::Package &),
                                    std::string (*help)(const std::string &, const Package &),
                                    const CommandRun (&commands)[count]) {
  return {isOf, help, commands, count};
}

static constexpr CommandRun speech[] = {{Command::Transcribe, runTranscribe}};
const CommandPart heddle_part_speech = partOf(hears, soundHelp, speech);

static constexpr CommandRun generating[] = {{Command::Generate, runGenerate},
                                            {Command::Io, runIo},
                                            {Command::Bench, runBench},
                                            {Command::Perplexity, runPerplexity}};
const CommandPart heddle_part_generating = partOf(generates, generatingHelp, generating);

static constexpr CommandRun chat[] = {{Command::Chat, runChat}};
const CommandPart heddle_part_chat = partOf(chats, nullptr, chat);

static constexpr CommandRun images[] = {
    {Command::Classify, runClassifyImages}, {Command::Embed, runEmbedTensors}, {Command::Similarity, runSimilarity}};
const CommandPart heddle_part_images = partOf(embedsTensors, nullptr, images);

static constexpr CommandRun texts[] = {{Command::Embed, runEmbed},       {Command::Classify, runClassify},
                                       {Command::Rerank, runRerank},     {Command::ClassifyTokens, runClassifyTokens},
                                       {Command::FillMask, runFillMask}, {Command::AnswerQuestion, runAnswer}};
const CommandPart heddle_part_texts = partOf(encodesTexts, nullptr, texts);

static constexpr CommandRun encoding[] = {{Command::Io, runFunctionIo}, {Command::Bench, runEncodeBench}};
const CommandPart heddle_part_encoding = partOf(isEncoder, encoderHelp, encoding);

static constexpr CommandRun graphs[] = {{Command::Io, runFunctionIo}, {Command::Bench, runGraphBench}};
const CommandPart heddle_part_graphs = partOf(isGraph, graphHelp, graphs);

static constexpr CommandRun attention[] = {{Command::AttentionMap, runAttentionMap}};
const CommandPart heddle_part_attention = partOf(showsAttention, nullptr, attention);
