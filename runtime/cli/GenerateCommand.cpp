// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN [PROMPT]: text, ids, log probabilities or beams; and --perplexity.
#include "runtime/cli/AnswerStream.h"

#include "bytes/Json.h"
#include "bytes/JsonSchema.h"
#include "runtime/cli/ImageRun.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>

namespace heddle {

Status readAll(FILE *file, const std::string &name, std::string &text) {
  char buffer[65536];
  while (size_t count = fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, count);
    if (text.size() > Tokenizer::maxText)
      return invalidInput(format("%s: more than %zu bytes of text", name.c_str(), Tokenizer::maxText));
  }
  return ferror(file) ? Status::failure(name + ": cannot be read") : Status();
}

Status readPrompt(const OpenedModel &program, std::vector<int32_t> &ids, const PromptImages *images) {
  const CliOptions &options = program.options;
  if (options.promptIds) {
    ids = *options.promptIds;
    return ids.empty() ? invalidInput("--prompt-ids: no ids") : Status();
  }
  std::string text;
  if (options.prompt) {
    text = *options.prompt;
  } else {
    if (!program.tokenizer)
      return invalidInput("this model was compiled without a tokenizer: it takes --prompt-ids and --io");
    if (isatty(STDIN_FILENO))
      return invalidInput("a prompt is expected, as an argument or on standard input (--help shows examples)");
    HEDDLE_RETURN_IF_ERROR(readAll(stdin, "standard input", text));
    // A line that was typed or echoed ends with a newline that is not meant.
    if (!text.empty() && text.back() == '\n')
      text.pop_back();
  }
  if (images)
    HEDDLE_RETURN_IF_ERROR(images->write(program, text));
  HEDDLE_RETURN_IF_ERROR(program.encode(text, ids, !images || !images->hasStart()));
  return ids.empty() ? invalidInput("the prompt is empty") : Status();
}

namespace {

std::string joinIds(const std::vector<int32_t> &ids) {
  std::string text;
  text.reserve(ids.size() * sizeof("-2147483648,"));
  for (size_t i = 0; i < ids.size(); ++i)
    text.append(i ? "," : "").append(std::to_string(ids[i]));
  text += '\n';
  return text;
}

// One line of --logprobs.
std::string describeToken(const OpenedModel &program, int32_t id, const float *logits) {
  int64_t vocabSize = program.metadata().vocab_size();
  std::vector<float> logProbabilities(vocabSize);
  logSoftmax(logits, vocabSize, logProbabilities.data());
  auto describe = [&](int32_t token, float logProbability) {
    std::string text = "{\"id\":" + std::to_string(token);
    if (program.tokenizer)
      text += ",\"text\":" + jsonString(program.tokenText(token));
    return text + format(",\"logprob\":%.6f", logProbability);
  };
  std::string line =
      "{\"schema\":" + jsonString(schema::logprobs) + "," + describe(id, logProbabilities[id]).substr(1) + ",\"top\":[";
  bool first = true;
  for (const TokenProbability &top : topTokens(logits, vocabSize, program.options.logprobs)) {
    line += (first ? "" : ",") + describe(top.id, top.logProbability) + "}";
    first = false;
  }
  return line + "]}\n";
}

// A session, and in the prompt what the model sees of the images beside it.
Status beginSession(OpenedModel &program, int32_t maxSequences, std::unique_ptr<Session> &session, PromptImages &images,
                    std::vector<int32_t> &prompt) {
  HEDDLE_RETURN_IF_ERROR(Session::create(*program.package, program.sessionOptions(maxSequences), session));
  session->setProgress(promptProgress());
  HEDDLE_RETURN_IF_ERROR(images.begin(program, *session));
  return images.place(prompt);
}

Status printBeams(OpenedModel &program, PromptImages &images, std::vector<int32_t> &prompt) {
  const CliOptions &options = program.options;
  std::unique_ptr<Session> session;
  HEDDLE_RETURN_IF_ERROR(beginSession(program, options.beams, session, images, prompt));
  int64_t promptTokens = session->tokensOfPrompt(int64_t(prompt.size()));
  BeamOptions beam = program.beamOptions(program.newTokens(*session, promptTokens));
  std::vector<BeamResult> results;
  HEDDLE_RETURN_IF_ERROR(searchBeams(*session, prompt, beam, results));
  for (const BeamResult &result : results) {
    if (options.printIds || !program.tokenizer) {
      HEDDLE_RETURN_IF_ERROR(writeOut(joinIds(result.ids)));
      continue;
    }
    AnswerStream stream(program, /*keeps=*/false);
    for (int32_t id : result.ids)
      if (!stream.take(id))
        break;
    HEDDLE_RETURN_IF_ERROR(stream.finish(/*newline=*/true));
  }
  bool endsAtLimit = std::any_of(results.begin(), results.end(), [&](const BeamResult &result) {
    return int64_t(result.ids.size()) == beam.maxTokens &&
           std::find(beam.eos.begin(), beam.eos.end(), result.ids.back()) == beam.eos.end();
  });
  if (endsAtLimit)
    program.noteEnd(program.longestAnswer(promptTokens) == beam.maxTokens ? EndReason::MaxTokens : EndReason::Context);
  return Status();
}

} // namespace

Status runGenerate(OpenedModel &program) {
  const CliOptions &options = program.options;
  std::vector<int32_t> prompt;
  PromptImages images;
  HEDDLE_RETURN_IF_ERROR(images.read(program));
  HEDDLE_RETURN_IF_ERROR(readPrompt(program, prompt, &images));
  const package::Encoder *encoder = program.metadata().encoder(); // which reads the prompt, where there is one
  if (uint32_t limit = encoder ? encoder->context() : program.metadata().context(); prompt.size() > limit)
    return invalidInput(format("the prompt has %zu tokens, the context %u", prompt.size(), limit));
  if (options.beams > 1)
    return printBeams(program, images, prompt);
  std::unique_ptr<Session> session;
  HEDDLE_RETURN_IF_ERROR(beginSession(program, /*maxSequences=*/1, session, images, prompt));

  struct Printer {
    const OpenedModel &program;
    AnswerStream stream;
    std::vector<int32_t> ids;
    bool asIds, asLines;
    Status status;
  } printer = {
      program, AnswerStream(program, /*keeps=*/false), {}, options.printIds || !program.tokenizer, options.logprobs > 0,
      {}};
  auto sink = [](void *user, int32_t id, const float *logits) {
    auto &printer = *static_cast<Printer *>(user);
    if (printer.asIds)
      printer.ids.push_back(id);
    if (printer.asLines)
      printer.status = writeOut(describeToken(printer.program, id, logits));
    else if (!printer.asIds && !printer.stream.take(id))
      return false;
    return printer.status.isOk() && !wasInterrupted();
  };
  if (printer.asIds)
    printer.ids.reserve(program.metadata().context());
  GenerateOptions generate = program.generateOptions(session->tokensOfPrompt(int64_t(prompt.size())));
  generate.givesLogits = printer.asLines;
  EndReason reason;
  HEDDLE_RETURN_IF_ERROR(generateTokens(*session, 0, prompt.data(), prompt.size(), generate, sink, &printer, reason));
  HEDDLE_RETURN_IF_ERROR(printer.status);
  if (!printer.asLines)
    HEDDLE_RETURN_IF_ERROR(printer.asIds ? writeOut(joinIds(printer.ids)) : printer.stream.finish(/*newline=*/true));
  program.noteEnd(reason);
  return Status();
}

Status runPerplexity(OpenedModel &program) {
  const std::string &path = program.options.perplexityFile;
  MappedFile file;
  HEDDLE_RETURN_IF_ERROR(file.open(path));
  if (file.size() > Tokenizer::maxText)
    return invalidInput(format("%s: %llu bytes, at most %zu are expected", path.c_str(),
                               (unsigned long long)file.size(), Tokenizer::maxText));
  std::vector<int32_t> ids;
  HEDDLE_RETURN_IF_ERROR(program.encode(std::string(reinterpret_cast<const char *>(file.data()), file.size()), ids));
  if (ids.size() < 2)
    return invalidInput(format("%s: %zu tokens, at least 2 are expected", path.c_str(), ids.size()));
  std::unique_ptr<Session> session;
  HEDDLE_RETURN_IF_ERROR(Session::create(*program.package, program.sessionOptions(), session));
  // Windows of a whole context each; the first token of a window is not predicted.
  struct Sum {
    const int32_t *ids;
    int64_t count, vocabSize, tokens;
    double negativeLog;
    std::vector<float> logProbabilities;
  } sum = {nullptr, 0, program.metadata().vocab_size(), 0, 0, std::vector<float>(program.metadata().vocab_size())};
  RowSink sink(
      [](void *user, size_t, int32_t token, const float *logits, const float *) {
        auto &sum = *static_cast<Sum *>(user);
        if (token + 1 == sum.count)
          return;
        logSoftmax(logits, sum.vocabSize, sum.logProbabilities.data());
        sum.negativeLog -= sum.logProbabilities[sum.ids[token + 1]];
        ++sum.tokens;
      },
      &sum);
  session->setProgress(promptProgress());
  for (size_t at = 0; at + 1 < ids.size(); at += sum.count) {
    sum.ids = ids.data() + at;
    sum.count = std::min<int64_t>(session->context(), int64_t(ids.size() - at));
    session->truncate(0, 0);
    Feed feed = {0, int32_t(sum.count), sum.ids, nullptr, FeedRows::All};
    HEDDLE_RETURN_IF_ERROR(session->forward(&feed, 1, sink));
  }
  return writeOut(format("perplexity %.4f over %lld tokens\n", std::exp(sum.negativeLog / double(sum.tokens)),
                         (long long)sum.tokens));
}

} // namespace heddle
