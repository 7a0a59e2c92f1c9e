// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C ABI over the classes of the runtime.
#include "runtime/include/heddle/heddle.h"

#include "bytes/MemoryScope.h"
#include "runtime/session/Generator.h"
#include "runtime/text/tokenizer/TokenDecoder.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <new>

struct heddle_package {
  std::unique_ptr<heddle::Package> package;
  std::unique_ptr<heddle::Tokenizer> tokenizer; // null: the model has none
};

struct heddle_session {
  heddle_package *owner;
  std::unique_ptr<heddle::Session> session;
};

namespace {

using namespace heddle;

// Plain bytes: an object with a destructor would need the C++ library's thread exit hooks.
thread_local char lastError[1024];

// Runs what acquires things for an answer and otherwise leaves nothing behind: its memory may lack.
template <typename Call> heddle_status runInMemoryOrReport(const Call &call) {
  heddle_status status = HEDDLE_OUT_OF_MEMORY;
  if (!runInMemory([&] { status = call(); }))
    snprintf(lastError, sizeof lastError, "out of memory");
  return status;
}

heddle_status report(const Status &status) {
  size_t size = wholeCharacters(status.message(), sizeof lastError - 1);
  memcpy(lastError, status.message().data(), size);
  lastError[size] = '\0';
  switch (status.code()) {
  case StatusCode::Ok:
    return HEDDLE_OK;
  case StatusCode::InvalidInput:
    return HEDDLE_INVALID_INPUT;
  case StatusCode::OutOfMemory:
    return HEDDLE_OUT_OF_MEMORY;
  case StatusCode::Failure:
    break;
  }
  return HEDDLE_FAILURE;
}

// What a caller gives by its name in heddle.h.
struct Argument {
  const char *name;
  const void *pointer;
};

Status checkNotNull(std::initializer_list<Argument> arguments) {
  for (const Argument &argument : arguments)
    if (!argument.pointer)
      return invalidInput(format("%s is a null pointer", argument.name));
  return Status();
}

// `open` is Package::open or openFile of an argument.
template <typename Open> heddle_status openPackage(const Open &open, heddle_package **out) {
  return runInMemoryOrReport([&] {
    std::unique_ptr<heddle_package> opened(new heddle_package);
    if (Status status = open(opened->package); !status.isOk())
      return report(status);
    const Package &package = *opened->package;
    const package::Tokenizer *table = package.metadata().tokenizer();
    if (table && table->model() != package::TokenizerModel::None) {
      std::string error;
      opened->tokenizer = Tokenizer::create(*table, error);
      if (!opened->tokenizer)
        return report(Status::failure(package.path() + ": " + error));
    }
    *out = opened.release();
    return HEDDLE_OK;
  });
}

// Copies an option struct of any version: fields that the caller does not know are zero.
template <typename T> Status copyOptions(const T *options, T &copy) {
  memset(&copy, 0, sizeof copy);
  if (!options)
    return Status();
  if (options->size < sizeof(size_t))
    return invalidInput("the size field of an options struct is not set");
  memcpy(&copy, options, std::min(options->size, sizeof copy));
  return Status();
}

Status checkSequence(const heddle_session *session, int32_t sequence) {
  HEDDLE_RETURN_IF_ERROR(checkNotNull({{"session", session}}));
  int32_t maxSequences = session->session->maxSequences();
  if (sequence >= 0 && sequence < maxSequences)
    return Status();
  return invalidInput(format("sequence %d is not in [0, %d)", sequence, maxSequences));
}

Status checkIds(const int32_t *ids, size_t count) {
  if (!ids && count)
    return invalidInput(format("the %zu ids are a null pointer", count));
  return count <= INT32_MAX ? Status() : invalidInput(format("%zu tokens, at most 2^31 - 1 are expected", count));
}

Status readGenerateOptions(const heddle_generate_options *options, const package::Package &metadata,
                           GenerateOptions &out) {
  heddle_generate_options given;
  HEDDLE_RETURN_IF_ERROR(copyOptions(options, given));
  if (given.max_tokens < 0)
    return invalidInput(format("max_tokens is %d, expected a number from 0", given.max_tokens));
  out.maxTokens = given.max_tokens;
  out.sampler.temperature = given.temperature;
  out.sampler.topK = given.top_k;
  out.sampler.topP = given.top_p == 0 ? 1 : given.top_p;
  out.sampler.minP = given.min_p;
  out.sampler.repetitionPenalty = given.repetition_penalty == 0 ? 1 : given.repetition_penalty;
  out.sampler.seed = given.seed;
  if (!given.ignore_eos)
    out.eos = endTokensOf(metadata);
  return checkSamplerOptions(out.sampler);
}

} // namespace

const char *heddle_error_message(void) {
  return lastError;
}

const char *heddle_version_string(void) {
  return HEDDLE_VERSION;
}

heddle_status heddle_package_open(const heddle_model *model, heddle_package **out_package) {
  if (Status status = checkNotNull({{"model", model}, {"out_package", out_package}}); !status.isOk())
    return report(status);
  return openPackage([&](std::unique_ptr<Package> &package) { return Package::open(model, package); }, out_package);
}

heddle_status heddle_package_open_file(const char *path, heddle_package **out_package) {
  if (Status status = checkNotNull({{"path", path}, {"out_package", out_package}}); !status.isOk())
    return report(status);
  return openPackage([&](std::unique_ptr<Package> &package) { return Package::openFile(path, nullptr, package); },
                     out_package);
}

heddle_status heddle_package_check(const heddle_package *package) {
  Status status = checkNotNull({{"package", package}});
  return report(status.isOk() ? package->package->check() : status);
}

void heddle_package_close(heddle_package *package) {
  delete package;
}

const char *heddle_package_name(const heddle_package *package) {
  return package ? package->package->metadata().name()->c_str() : nullptr;
}
int64_t heddle_package_vocab_size(const heddle_package *package) {
  return package ? package->package->metadata().vocab_size() : 0;
}
int64_t heddle_package_hidden_size(const heddle_package *package) {
  return package ? package->package->metadata().hidden_size() : 0;
}
int64_t heddle_package_context(const heddle_package *package) {
  return package ? package->package->metadata().context() : 0;
}

heddle_status heddle_package_encode(const heddle_package *package, const char *text, size_t size, int plain,
                                    int32_t *ids, size_t capacity, size_t *out_count) {
  Status valid = checkNotNull({{"package", package},
                               {"text", size ? static_cast<const void *>(text) : ""},
                               {"ids", capacity ? static_cast<const void *>(ids) : ""},
                               {"out_count", out_count}});
  if (!valid.isOk())
    return report(valid);
  if (!package->tokenizer)
    return report(invalidInput("the model was compiled without a tokenizer"));
  return runInMemoryOrReport([&] {
    EncodeOptions options;
    options.parseSpecial = options.addSpecial = !plain;
    std::vector<int32_t> encoded;
    std::string error;
    if (!package->tokenizer->encode({text, size}, options, encoded, error))
      return report(invalidInput("the text: " + error));
    std::copy_n(encoded.begin(), std::min(capacity, encoded.size()), ids);
    *out_count = encoded.size();
    return HEDDLE_OK;
  });
}

heddle_status heddle_package_decode(const heddle_package *package, const int32_t *ids, size_t count, char *text,
                                    size_t capacity, size_t *out_size) {
  Status valid = checkNotNull(
      {{"package", package}, {"text", capacity ? static_cast<const void *>(text) : ""}, {"out_size", out_size}});
  if (!valid.isOk())
    return report(valid);
  if (!package->tokenizer)
    return report(invalidInput("the model was compiled without a tokenizer"));
  if (Status status = checkIds(ids, count); !status.isOk())
    return report(status);
  return runInMemoryOrReport([&] {
    std::string decoded, error;
    if (!package->tokenizer->decode({ids, ids + count}, /*skipSpecial=*/true, decoded, error))
      return report(invalidInput(error));
    std::copy_n(decoded.begin(), std::min(capacity, decoded.size()), text);
    *out_size = decoded.size();
    return HEDDLE_OK;
  });
}

heddle_status heddle_session_create(heddle_package *package, const heddle_session_options *options,
                                    heddle_session **out_session) {
  if (Status status = checkNotNull({{"package", package}, {"out_session", out_session}}); !status.isOk())
    return report(status);
  heddle_session_options given;
  if (Status status = copyOptions(options, given); !status.isOk())
    return report(status);
  SessionOptions sessionOptions;
  sessionOptions.threads = given.threads;
  sessionOptions.maxSequences = given.max_sequences ? given.max_sequences : 1;
  sessionOptions.context = given.context;
  sessionOptions.keepHidden = given.keep_hidden != 0;
  sessionOptions.fixedForms = given.deterministic != 0;
  sessionOptions.device = given.device ? given.device : "";
  std::unique_ptr<heddle_session> session(new (std::nothrow) heddle_session{package, nullptr});
  if (!session)
    return report(outOfMemory("no memory for a session"));
  if (Status status = Session::create(*package->package, sessionOptions, session->session); !status.isOk())
    return report(status);
  *out_session = session.release();
  return HEDDLE_OK;
}

void heddle_session_destroy(heddle_session *session) {
  delete session;
}

heddle_status heddle_session_step(heddle_session *session, const heddle_feed *feeds, size_t num_feeds) {
  Status status = checkNotNull({{"session", session}});
  return report(status.isOk() ? session->session->step(feeds, num_feeds) : status);
}

heddle_status heddle_session_prefill(heddle_session *session, int32_t sequence, const int32_t *ids, size_t count) {
  Status status = checkNotNull({{"session", session}});
  if (status.isOk())
    status = checkIds(ids, count);
  return report(status.isOk() ? session->session->append(sequence, ids, int32_t(count)) : status);
}

heddle_status heddle_session_decode(heddle_session *session, int32_t sequence, int32_t id) {
  Status status = checkNotNull({{"session", session}});
  return report(status.isOk() ? session->session->append(sequence, &id, 1) : status);
}

const float *heddle_session_logits(const heddle_session *session, size_t feed) {
  return session ? session->session->logits(feed) : nullptr;
}
const float *heddle_session_hidden_state(const heddle_session *session, size_t feed) {
  return session ? session->session->hiddenState(feed) : nullptr;
}
int64_t heddle_session_length(const heddle_session *session, int32_t sequence) {
  return checkSequence(session, sequence).isOk() ? session->session->length(sequence) : 0;
}

heddle_status heddle_session_reset(heddle_session *session, int32_t sequence) {
  Status status = checkSequence(session, sequence);
  if (status.isOk())
    session->session->truncate(sequence, 0);
  return report(status);
}

heddle_status heddle_session_fork(heddle_session *session, int32_t source, int32_t target) {
  Status status = checkSequence(session, source);
  if (status.isOk())
    status = checkSequence(session, target);
  if (status.isOk())
    session->session->fork(source, target);
  return report(status);
}

heddle_status heddle_session_generate(heddle_session *session, int32_t sequence, const int32_t *ids, size_t count,
                                      const heddle_generate_options *options, heddle_token_callback callback,
                                      void *user, size_t *out_count) {
  GenerateOptions generate;
  Status status = checkNotNull({{"session", session}, {"out_count", out_count}});
  if (status.isOk())
    status = readGenerateOptions(options, session->owner->package->metadata(), generate);
  if (status.isOk())
    status = checkSequence(session, sequence);
  if (status.isOk())
    status = checkIds(ids, count);
  if (!status.isOk())
    return report(status);

  struct Call {
    heddle_token_callback callback;
    void *user;
    std::optional<TokenDecoder> decoder;
    std::string text;
    size_t count;
  } call = {callback, user, {}, {}, 0};
  if (session->owner->tokenizer)
    call.decoder.emplace(*session->owner->tokenizer, /*skipSpecial=*/true);
  EndReason reason;
  status = generateTokens(
      *session->session, sequence, ids, count, generate,
      [](void *callUser, int32_t id, const float *) {
        auto &call = *static_cast<Call *>(callUser);
        ++call.count;
        call.text.clear();
        if (call.decoder)
          call.decoder->append(id, call.text);
        return !call.callback || call.callback(call.user, id, call.text.data(), call.text.size()) == 0;
      },
      &call, reason);
  if (status.isOk())
    *out_count = call.count;
  return report(status);
}
