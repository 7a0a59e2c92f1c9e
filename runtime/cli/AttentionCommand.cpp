// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --attention-map FILE [PROMPT]: what each token attends to, in every layer and head. A model that continues a prompt is shown the prompt, with -n
// also what it makes of it; an encoder-decoder is shown its answer, an encoder its text, or two that it reads as a pair. An answer is generated
// as always; then all tokens are run once more, observed.
#include "runtime/cli/AttentionFile.h"
#include "runtime/cli/TextRun.h"

namespace heddle {
namespace {

// Appends what the model makes of the prompt to `tokens`.
Status generateAnswer(OpenedModel &program, Session &session, const std::vector<int32_t> &prompt,
                      std::vector<int32_t> &tokens) {
  auto sink = [](void *user, int32_t id, const float *) {
    static_cast<std::vector<int32_t> *>(user)->push_back(id);
    return !wasInterrupted();
  };
  tokens.reserve(size_t(session.context()) + 1);
  EndReason reason;
  GenerateOptions options = program.generateOptions(session.tokensOfPrompt(int64_t(prompt.size())));
  HEDDLE_RETURN_IF_ERROR(generateTokens(session, 0, prompt.data(), prompt.size(), options, sink, &tokens, reason));
  program.noteEnd(reason);
  if (int64_t(tokens.size()) > session.context()) // nothing would attend from the last one
    tokens.resize(size_t(session.context()));
  return Status();
}

Status mapOfAnswer(OpenedModel &program, const std::string &path) {
  const package::Package &metadata = program.metadata();
  AttentionText text;
  std::vector<int32_t> prompt;
  HEDDLE_RETURN_IF_ERROR(readPrompt(program, prompt));
  bool isPair = metadata.task() == package::Task::Seq2Seq;
  const auto *ownTokens = program.options.adapter ? metadata.virtual_tokens() : nullptr;
  if (ownTokens && ownTokens->Get(unsigned(program.options.adapter - 1)))
    return invalidInput("--attention-map: adapter '" + program.options.adapterName +
                        "' begins sequences with virtual tokens, which have no text");
  SessionOptions options = program.sessionOptions();
  options.profile = true;    // which kernel has run is told by its launches
  options.fixedForms = true; // queries of latent attention are folded
  std::unique_ptr<Session> session;
  HEDDLE_RETURN_IF_ERROR(Session::create(*program.package, options, session));
  session->setProgress(promptProgress());
  if (int64_t(prompt.size()) > session->promptLimit())
    return invalidInput(
        format("the prompt has %zu tokens, the context %lld", prompt.size(), (long long)session->promptLimit()));
  HEDDLE_RETURN_IF_ERROR(checkAttentionSize(program, path, isPair ? 1 : prompt.size(), isPair ? prompt.size() : 0));
  if (isPair)
    text.sources = prompt;
  else
    text.tokens = prompt;
  if (isPair || program.options.hasMaxTokens) {
    std::vector<int32_t> answer;
    HEDDLE_RETURN_IF_ERROR(generateAnswer(program, *session, prompt, answer));
    if (isPair)
      text.tokens.assign(session->history(0), session->history(0) + 1); // with what the decoder starts
    text.answer = text.tokens.size();
    text.tokens.insert(text.tokens.end(), answer.begin(), answer.end());
    text.tokens.resize(std::min<size_t>(text.tokens.size(), size_t(session->context())));
  }
  HEDDLE_RETURN_IF_ERROR(checkAttentionSize(program, path, text.tokens.size(), text.sources.size()));
  Device *device = nullptr; // which the session has opened
  HEDDLE_RETURN_IF_ERROR(program.package->openDevice("", device));
  AttentionRecorder recorder(*program.package, device);
  HEDDLE_RETURN_IF_ERROR(recorder.prepare(int64_t(text.tokens.size()), int64_t(text.sources.size())));
  session->truncate(0, 0);
  session->observeKernels(recorder.observer());
  if (isPair) {
    int32_t sequence = 0;
    EncoderInput input = {int32_t(text.sources.size()), text.sources.data()};
    HEDDLE_RETURN_IF_ERROR(session->encode(&input, &sequence, 1));
  }
  HEDDLE_RETURN_IF_ERROR(session->append(0, text.tokens.data(), int32_t(text.tokens.size())));
  HEDDLE_RETURN_IF_ERROR(recorder.finish());
  return writeAttention(program, path, text, recorder.maps());
}

// The text, or two that are read as a pair, or ids.
Status readSequence(OpenedModel &program, TextSequence &sequence) {
  TextRun run(program);
  if (program.options.promptIds) {
    HEDDLE_RETURN_IF_ERROR(run.addIds(*program.options.promptIds));
    sequence = std::move(run.sequences.front());
    return Status();
  }
  if (!program.tokenizer)
    return invalidInput("this model was compiled without a tokenizer: --attention-map takes --prompt-ids");
  std::vector<std::string> texts;
  HEDDLE_RETURN_IF_ERROR(readTextArguments(program.options, "texts", texts));
  size_t most = program.metadata().tokenizer()->pair() ? 2 : 1;
  if (texts.size() > most)
    return invalidInput(format("--attention-map: %zu texts are given, one%s is expected", texts.size(),
                               most == 2 ? ", or two that are read as a pair," : ""));
  HEDDLE_RETURN_IF_ERROR(texts.size() == 2 ? run.addPair(texts[0], texts[1], 0)
                                           : run.add(texts[0], 0, program.metadata().context()));
  sequence = std::move(run.sequences.front());
  return Status();
}

Status mapOfText(OpenedModel &program, const std::string &path) {
  TextSequence sequence;
  HEDDLE_RETURN_IF_ERROR(readSequence(program, sequence));
  HEDDLE_RETURN_IF_ERROR(checkAttentionSize(program, path, sequence.ids.size(), 0));
  std::unique_ptr<Encoder> encoder;
  HEDDLE_RETURN_IF_ERROR(Encoder::create(*program.package, program.options.threads, /*pool=*/nullptr, encoder));
  Device *device = nullptr; // which the encoder has opened
  HEDDLE_RETURN_IF_ERROR(program.package->openDevice("", device));
  AttentionRecorder recorder(*program.package, device);
  HEDDLE_RETURN_IF_ERROR(recorder.prepare(int64_t(sequence.ids.size()), 0));
  encoder->profileKernels();
  encoder->observeKernels(recorder.observer());
  EncoderInput input = {int32_t(sequence.ids.size()), sequence.ids.data(), sequence.positions.data(),
                        sequence.types.data()};
  HEDDLE_RETURN_IF_ERROR(encoder->run(&input, 1, /*take=*/nullptr, nullptr));
  HEDDLE_RETURN_IF_ERROR(recorder.finish());
  AttentionText text;
  text.tokens = sequence.ids;
  return writeAttention(program, path, text, recorder.maps());
}

} // namespace

Status runAttentionMap(OpenedModel &program) {
  const std::string &path = program.options.attentionFile;
  HEDDLE_RETURN_IF_ERROR(checkAttentionFile(path));
  return program.metadata().task() == package::Task::Encode ? mapOfText(program, path) : mapOfAnswer(program, path);
}

} // namespace heddle
