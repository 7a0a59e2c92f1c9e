// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --replay IN OUT: runs steps kernel by kernel for `heddle verify`. Before each kernel the memory that it reads is given the
// values that the file names, so that a kernel is judged on right inputs whatever ran before it; behind it its results are written
// out at once, so that the file says how far the process came. The weights are the binary's own.
#include "bytes/MappedFile.h"
#include "runtime/cli/Cli.h"
#include "runtime/model/ReplayFile.h"
#include "runtime/session/Encoder.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <numeric>
#include <unistd.h>

namespace heddle {
namespace {

// Reads the file from its beginning to its end.
class Replay {
public:
  explicit Replay(OpenedModel &program) : program(program), metadata(program.metadata()) {}
  ~Replay() {
    if (output >= 0)
      close(output);
  }

  Status run() {
    const CliOptions &options = program.options;
    if (runsOnDevice(metadata))
      return invalidInput("--replay: this model was compiled for a device, whose memory it does not read");
    HEDDLE_RETURN_IF_ERROR(input.open(options.ioInput));
    ReplayHeader header;
    HEDDLE_RETURN_IF_ERROR(take(header));
    if (memcmp(header.magic, replayMagic, sizeof replayMagic) != 0)
      return invalidInput(options.ioInput + ": no file of steps to replay");
    if (header.maxRows != int64_t(metadata.memory()->max_rows()) || header.numSequences < 1 ||
        header.numSequences > 65536)
      return invalidInput(format("%s: %lld rows and %lld sequences, the model has steps of %lld rows",
                                 options.ioInput.c_str(), (long long)header.maxRows, (long long)header.numSequences,
                                 (long long)metadata.memory()->max_rows()));
    output = open(options.ioOutput.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (output < 0)
      return invalidInput(options.ioOutput + ": " + strerror(errno));
    KernelObserver observer = {
        [](void *user, const heddle_step &step, int64_t done) { static_cast<Replay *>(user)->kernelEnded(step, done); },
        this};
    SessionOptions sessionOptions = program.sessionOptions(int32_t(header.numSequences));
    if (metadata.encoder()) {
      HEDDLE_RETURN_IF_ERROR(Encoder::create(*program.package, sessionOptions.threads, /*pool=*/nullptr, encoder));
      encoder->observeKernels(observer);
    } else {
      HEDDLE_RETURN_IF_ERROR(Session::create(*program.package, sessionOptions, session));
      session->observeKernels(observer);
    }
    for (int64_t step = 0; step < header.numSteps; ++step)
      HEDDLE_RETURN_IF_ERROR(runStep());
    return Status();
  }

private:
  // The next `size` bytes.
  Status bytes(int64_t size, const uint8_t *&out) {
    uint64_t padded = (uint64_t(size) + 7) / 8 * 8;
    if (size < 0 || padded > input.size() - position)
      return invalidInput(format("%s: the file ends at byte %llu, where %lld more are expected",
                                 program.options.ioInput.c_str(), (unsigned long long)input.size(), (long long)size));
    out = input.data() + position;
    position += padded;
    return Status();
  }
  Status numbers(int32_t count, const int32_t *&out) {
    const uint8_t *from = nullptr;
    HEDDLE_RETURN_IF_ERROR(bytes(count * int64_t(sizeof(int32_t)), from));
    out = reinterpret_cast<const int32_t *>(from);
    return Status();
  }
  template <typename T> Status take(T &out) {
    const uint8_t *from = nullptr;
    HEDDLE_RETURN_IF_ERROR(bytes(sizeof out, from));
    memcpy(&out, from, sizeof out);
    return Status();
  }

  Status runStep() {
    HEDDLE_RETURN_IF_ERROR(take(step));
    Status status = encoder ? encode() : forward();
    HEDDLE_RETURN_IF_ERROR(failed);
    return status;
  }

  Status forward() {
    std::vector<Feed> feeds;
    for (int64_t i = 0; i < step.numFeeds; ++i) {
      ReplayFeed feed;
      const int32_t *ids = nullptr;
      HEDDLE_RETURN_IF_ERROR(take(feed));
      HEDDLE_RETURN_IF_ERROR(numbers(feed.count, ids));
      feeds.push_back({feed.sequence, feed.count, ids, nullptr, FeedRows::All});
    }
    RowSink ignored([](void *, size_t, int32_t, const float *, const float *) {}, nullptr);
    return session->forward(feeds.data(), feeds.size(), ignored);
  }

  Status encode() {
    std::vector<EncoderInput> inputs;
    std::vector<int32_t> positions(metadata.context());
    std::iota(positions.begin(), positions.end(), 0);
    for (int64_t i = 0; i < step.numFeeds; ++i) {
      ReplayFeed feed;
      const int32_t *ids = nullptr, *tokenTypes = nullptr;
      HEDDLE_RETURN_IF_ERROR(take(feed));
      HEDDLE_RETURN_IF_ERROR(numbers(feed.count, ids));
      HEDDLE_RETURN_IF_ERROR(numbers(feed.count, tokenTypes));
      inputs.push_back({feed.count, ids, positions.data(), tokenTypes});
      if (int64_t width = inputRowWidth(*metadata.encoder())) {
        const uint8_t *patches = nullptr;
        HEDDLE_RETURN_IF_ERROR(bytes(feed.count * width * int64_t(sizeof(float)), patches));
        inputs.back().patches = reinterpret_cast<const float *>(patches);
      }
      if (metadata.encoder()->globals() != package::GlobalTokens::Absent)
        HEDDLE_RETURN_IF_ERROR(numbers(feed.count, inputs.back().globals));
    }
    return encoder->run(inputs.data(), inputs.size(), [](void *, size_t, const float *const *) {}, nullptr);
  }

  // Behind kernel `done` of a step, and before the next. A failure ends the replay once the step has ended.
  void kernelEnded(const heddle_step &running, int64_t done) {
    if (failed.isOk() && (running.rows != step.rows || done > step.numKernels))
      failed = Status::failure(format("the step has %lld rows and kernel %lld, expected %lld rows and %lld kernels",
                                      (long long)running.rows, (long long)done, (long long)step.rows,
                                      (long long)step.numKernels));
    if (failed.isOk() && done > 0)
      failed = writeResults(running);
    if (failed.isOk() && done < step.numKernels)
      failed = give(running);
  }

  Status give(const heddle_step &running) {
    HEDDLE_RETURN_IF_ERROR(take(kernel));
    for (int64_t i = 0; i < kernel.numGiven; ++i) {
      ReplayRegion region;
      uint8_t *memory = nullptr;
      const uint8_t *values = nullptr;
      HEDDLE_RETURN_IF_ERROR(take(region));
      HEDDLE_RETURN_IF_ERROR(locate(running, region, memory));
      HEDDLE_RETURN_IF_ERROR(bytes(region.bytes(), values));
      for (int64_t row = 0; row < region.rows; ++row)
        memcpy(memory + row * region.stride, values + row * region.rowBytes, region.rowBytes);
    }
    return Status();
  }

  Status writeResults(const heddle_step &running) {
    int64_t number = ++ended;
    HEDDLE_RETURN_IF_ERROR(write(&number, sizeof number));
    for (int64_t i = 0; i < kernel.numResults; ++i) {
      ReplayRegion region;
      uint8_t *memory = nullptr;
      HEDDLE_RETURN_IF_ERROR(take(region));
      HEDDLE_RETURN_IF_ERROR(locate(running, region, memory));
      for (int64_t row = 0; row < region.rows; ++row)
        HEDDLE_RETURN_IF_ERROR(write(memory + row * region.stride, region.rowBytes));
    }
    return Status();
  }

  Status write(const void *data, size_t size) {
    for (size_t done = 0; done < size;) {
      ssize_t count = ::write(output, static_cast<const char *>(data) + done, size - done);
      if (count < 0 && errno != EINTR)
        return Status::failure(program.options.ioOutput + ": " + strerror(errno));
      done += count < 0 ? 0 : count;
    }
    return Status();
  }

  // Where a region begins. It lies inside what its base names.
  Status locate(const heddle_step &running, const ReplayRegion &region, uint8_t *&out) {
    const package::MemoryPlan &plan = *metadata.memory();
    int64_t size = 0;
    out = nullptr;
    switch (region.base) {
    case ReplayBase::Arena:
      out = running.arena;
      size = plan.fixed() + plan.per_row() * running.max_rows;
      break;
    case ReplayBase::Logits:
      out = reinterpret_cast<uint8_t *>(running.logits);
      size = running.num_outputs * metadata.vocab_size() * int64_t(sizeof(float));
      break;
    case ReplayBase::HiddenState:
      out = reinterpret_cast<uint8_t *>(running.last_hidden_state);
      size = running.rows * metadata.hidden_size() * int64_t(sizeof(float));
      break;
    case ReplayBase::Output: {
      const auto *outputs = metadata.encoder() ? metadata.encoder()->outputs() : nullptr;
      if (!outputs || region.page < 0 || region.page >= int64_t(outputs->size()))
        break;
      const package::EncoderOutput &output = *outputs->Get(unsigned(region.page));
      out = reinterpret_cast<uint8_t *>(running.outputs[region.page]);
      size = (output.of_sequences() ? running.num_outputs : running.rows) * int64_t(output.width() * sizeof(float));
      break;
    }
    case ReplayBase::Page:
      if (region.feed < 0 || region.feed >= running.num_sequences || !running.sequences)
        break;
      const heddle_sequence &sequence = running.sequences[region.feed];
      int64_t tokens = int64_t(sequence.past) + sequence.num_rows;
      if (region.page >= 0 && region.page * HEDDLE_KV_PAGE_SIZE < tokens)
        out = sequence.pages[region.page];
      size = metadata.kv()->page_bytes();
    }
    int64_t last = 0, end = 0;
    if (!out || region.offset < 0 || region.rows < 1 || region.rowBytes < 0 || region.stride < 0 ||
        __builtin_mul_overflow(region.rows - 1, region.stride, &last) ||
        __builtin_add_overflow(last, region.rowBytes, &last) || __builtin_add_overflow(last, region.offset, &end) ||
        end > size || region.rowBytes > size / region.rows)
      return invalidInput(
          format("%s: kernel %lld: %lld rows of %lld bytes from byte %lld do not lie in memory %d of %lld bytes",
                 program.options.ioInput.c_str(), (long long)ended, (long long)region.rows, (long long)region.rowBytes,
                 (long long)region.offset, int(region.base), (long long)size));
    out += region.offset;
    return Status();
  }

  OpenedModel &program;
  const package::Package &metadata;
  MappedFile input;
  uint64_t position = 0; // of the file, of what comes next
  int output = -1;
  std::unique_ptr<Session> session; // one of them, by what the model does
  std::unique_ptr<Encoder> encoder;
  ReplayStep step = {};
  ReplayKernel kernel = {}; // that runs
  int64_t ended = 0;        // kernels, of all steps
  Status failed;
};

} // namespace

Status runReplay(OpenedModel &program) {
  if (program.metadata().task() == package::Task::Seq2Seq)
    return invalidInput("--replay: kernels of an encoder-decoder are not recorded");
  return Replay(program).run();
}

} // namespace heddle
