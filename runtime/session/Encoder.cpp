// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/Encoder.h"

#include "runtime/session/SessionParts.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace heddle {

int64_t inputRowWidth(const package::Encoder &encoder) {
  if (const package::ImageInput *image = encoder.image())
    return int64_t(image->channels()) * image->patch() * image->patch() + image->special_tokens() + 1;
  return encoder.audio() ? 3 * (3 * int64_t(encoder.audio()->mel_bins()) + 1) : 0;
}

int64_t imageTokens(const package::ImageInput &image) {
  int64_t side = image.size() / image.patch();
  return image.special_tokens() + side * side;
}

std::vector<int32_t> positionsOf(const package::Package &metadata, const std::vector<int64_t> &ids) {
  int32_t padding = metadata.encoder()->position_padding(), next = metadata.position_offset();
  std::vector<int32_t> positions;
  positions.reserve(ids.size());
  for (int64_t id : ids)
    positions.push_back(padding >= 0 && id == padding ? metadata.position_offset() - 1 : next++);
  return positions;
}

Status Encoder::createLinked(Package &package, int32_t threads, ThreadPool *pool, std::unique_ptr<Encoder> &outEncoder,
                             PagedKvCache *sources) {
  if (package.metadata().task() != (sources ? package::Task::Seq2Seq : package::Task::Encode))
    return invalidInput(package.path() + ": no encoder");
  std::unique_ptr<Encoder> encoder(new (std::nothrow) Encoder(package, sources));
  if (!encoder)
    return outOfMemory();
  HEDDLE_RETURN_IF_ERROR(encoder->allocate(threads, pool));
  outEncoder = std::move(encoder);
  return Status();
}

Status Encoder::allocate(int32_t threads, ThreadPool *shared) {
  const package::Package &metadata = model.metadata();
  const package::MemoryPlan &plan = *metadata.memory();
  maxRows = metadata.encoder()->max_rows();
  HEDDLE_RETURN_IF_ERROR(model.openDevice("", device));
  // One thread enqueues what a device runs.
  HEDDLE_RETURN_IF_ERROR(pool.create(shared, device ? 1 : threads));
  if (!shared)
    model.sayOfThreads(*pool);
  HEDDLE_RETURN_IF_ERROR(rope.create(metadata, int64_t(metadata.encoder()->context()) + metadata.position_offset()));
  DeviceEncode::Sizes sizes = {
      plan.fixed() + plan.per_row() * maxRows, maxRows, inputRowWidth(*metadata.encoder()), {}, sources != nullptr};
  if (!device)
    HEDDLE_RETURN_IF_ERROR(arena.reserve(sizes.arenaBytes, "activations"));
  HEDDLE_RETURN_IF_ERROR(scratch.reserve(scratchStride(plan) * pool->size(), "scratch memory"));
  for (const package::EncoderOutput *output : *metadata.encoder()->outputs()) {
    outputs.emplace_back(new (std::nothrow) Reserved);
    if (!outputs.back())
      return outOfMemory();
    HEDDLE_RETURN_IF_ERROR(
        outputs.back()->reserve(uint64_t(maxRows) * output->width() * sizeof(float), output->name()->c_str()));
    outputRows.push_back(outputs.back()->as<float>());
    sizes.outputWidths.push_back(output->width());
  }
  taken.resize(outputRows.size());
  outputCounts.resize(outputRows.size());
  patchWidth = sizes.patchWidth;
  if (patchWidth)
    HEDDLE_RETURN_IF_ERROR(patches.reserve(uint64_t(maxRows) * patchWidth * sizeof(float), "patches"));
  for (ReservedArray<int32_t> *numbers : {&ids, &positions, &tokenTypes, &firstRows})
    HEDDLE_RETURN_IF_ERROR(numbers->reserve(maxRows, "rows"));
  if (metadata.encoder()->globals() != package::GlobalTokens::Absent)
    HEDDLE_RETURN_IF_ERROR(globals.reserve(maxRows, "rows"));
  if (sources) {
    for (ReservedArray<int32_t> *numbers : {&rowSequence, &cachePositions})
      HEDDLE_RETURN_IF_ERROR(numbers->reserve(maxRows, "rows"));
  }
  HEDDLE_RETURN_IF_ERROR(places.reserve(maxRows, "sequences"));
  HEDDLE_RETURN_IF_ERROR(sequenceRows.reserve(2 * maxRows, "sequences"));
  if (!device)
    return Status();
  deviceEncode = heddle_session_parts.devices->makeEncode();
  return deviceEncode ? deviceEncode->create(*device, sizes, rope) : outOfMemory();
}

Status Encoder::check(const EncoderInput *inputs, size_t numInputs) const {
  const package::Package &metadata = model.metadata();
  const package::Encoder &limits = *metadata.encoder();
  int64_t types = std::max<int64_t>(limits.token_types(), 1); // a model without types is given 0
  int64_t mostPositions = int64_t(limits.context()) + metadata.position_offset();
  for (size_t i = 0; i < numInputs; ++i) {
    const EncoderInput &input = inputs[i];
    if (input.count < 1 || uint32_t(input.count) > limits.context())
      return invalidInput(format("sequence %zu has %d tokens, expected 1 … %u", i, input.count, limits.context()));
    if (patchWidth && !input.patches)
      return invalidInput(limits.image() ? "this model takes pixel_values, no token ids"
                                         : "this model takes input_features, no token ids");
    for (int32_t token = 0; token < input.count; ++token) {
      if (input.ids[token] < 0 || uint32_t(input.ids[token]) >= limits.vocab_size())
        return invalidInput(
            format("token id %d of sequence %zu is not in [0, %u)", input.ids[token], i, limits.vocab_size()));
      if (input.positions && (input.positions[token] < 0 || input.positions[token] >= mostPositions))
        return invalidInput(format("token %d of sequence %zu stands at position %d, expected one in [0, %lld)", token,
                                   i, input.positions[token], (long long)mostPositions));
      if (input.tokenTypes && (input.tokenTypes[token] < 0 || input.tokenTypes[token] >= types))
        return invalidInput(
            format("token type %d of sequence %zu is not in [0, %lld)", input.tokenTypes[token], i, (long long)types));
    }
  }
  return Status();
}

int32_t Encoder::positionOf(const EncoderInput &input, int32_t token) const {
  return input.positions ? input.positions[token] : token + model.metadata().position_offset();
}

RopeTables::Mode Encoder::ropeModeOf(const EncoderInput &input) const {
  int32_t last = 0;
  for (int32_t token = 0; token < input.count && rope.dependsOnLength(); ++token)
    last = std::max(last, positionOf(input, token));
  return rope.modeOf(last + 1);
}

void Encoder::profileKernels(StepProfile *shared) {
  if (shared)
    profile = shared;
  else if (model.metadata().kernels())
    profile->create(*model.metadata().kernels());
  profiled.resize(size_t(maxRows));
}

size_t Encoder::fill(const EncoderInput *inputs, size_t first, size_t numInputs) {
  rows = numSequences = 0;
  size_t next = first;
  RopeTables::Mode mode = ropeModeOf(inputs[first]);
  for (; next < numInputs && rows + inputs[next].count <= maxRows; ++next, ++numSequences) {
    const EncoderInput &input = inputs[next];
    if (!(ropeModeOf(input) == mode))
      break;
    memcpy(ids.data() + rows, input.ids, input.count * sizeof(int32_t));
    for (int32_t token = 0; token < input.count; ++token) {
      positions[rows + token] = positionOf(input, token);
      tokenTypes[rows + token] = input.tokenTypes ? input.tokenTypes[token] : 0;
    }
    markGlobals(input, rows);
    if (patchWidth)
      memcpy(patches.as<float>() + rows * patchWidth, input.patches, input.count * patchWidth * sizeof(float));
    firstRows[numSequences] = sequenceRows[2 * numSequences] = int32_t(rows);
    sequenceRows[2 * numSequences + 1] = input.count;
    places[numSequences] = {int32_t(rows), input.count, 0, 0, nullptr};
    if (!profiled.empty()) {
      profiled[size_t(numSequences)] = {};
      profiled[size_t(numSequences)].num_rows = input.count;
    }
    rows += input.count;
  }
  rope.prepare(mode, positions.data(), rows);
  return next;
}

void Encoder::markGlobals(const EncoderInput &input, int64_t row) {
  const package::Encoder &encoder = *model.metadata().encoder();
  if (encoder.globals() == package::GlobalTokens::Absent)
    return;
  const int32_t *end = input.ids + input.count;
  int64_t first = 0; // so many are global
  if (encoder.globals() == package::GlobalTokens::First)
    first = 1;
  else if (const int32_t *found = std::find(input.ids, end, encoder.separator());
           encoder.globals() == package::GlobalTokens::Question && found != end)
    first = found - input.ids;
  for (int32_t token = 0; token < input.count; ++token)
    globals[row + token] = input.globals ? input.globals[token] : token < first;
}

// A cached sequence has as many tokens as it will once the step has run.
Status Encoder::placeSources(const EncoderInput *inputs, const int32_t *ofInputs) {
  for (int64_t i = 0; i < numSequences; ++i) {
    int32_t sequence = ofInputs[i];
    sources->setLength(sequence, 0);
    HEDDLE_RETURN_IF_ERROR(sources->makeRoom(sequence, inputs[i].count));
    places[i].pages = sources->pages(sequence);
    for (int32_t token = 0; token < inputs[i].count; ++token) {
      rowSequence[firstRows[i] + token] = int32_t(i);
      cachePositions[firstRows[i] + token] = token;
    }
  }
  return Status();
}

void Encoder::waitForKernel(void *encoder, int32_t) {
  auto &self = *static_cast<Encoder *>(encoder);
  if (self.profileStatus.isOk())
    self.profileStatus = self.device->synchronise();
  if (self.profileStatus.isOk() && self.observer.observe)
    self.observer.observe(self.observer.user, *self.observed, ++self.kernelsSeen);
}

Status Encoder::runStep(heddle_step &step) {
  if (!device) {
    runStepOn(*pool, model.code().encode, step, observer);
    return Status();
  }
  HEDDLE_RETURN_IF_ERROR(deviceEncode->begin(step, sources));
  step.barrier_wait = step.kernel_profile ? waitForKernel : [](void *, int32_t) {};
  step.barrier = this;
  observed = &step;
  kernelsSeen = 0;
  if (observer.observe)
    observer.observe(observer.user, step, 0);
  runStepOn(*pool, model.code().encode, step);
  for (unsigned i = 0; i < outputCounts.size(); ++i)
    outputCounts[i] = model.metadata().encoder()->outputs()->Get(i)->of_sequences() ? numSequences : rows;
  Status ended = deviceEncode->end(outputCounts, outputRows);
  Status profiled;
  std::swap(profiled, profileStatus);
  return profiled.isOk() ? ended : profiled;
}

Status Encoder::compute() {
  heddle_step step = {};
  step.weights = model.weights();
  step.arena = arena.data();
  step.scratch = scratch.data();
  step.scratch_stride = scratchStride(*model.metadata().memory());
  step.ids = ids.data();
  step.positions = positions.data();
  step.rope_tables = rope.tables();
  step.token_types = tokenTypes.data();
  step.globals = globals.data();
  step.patches = patches.as<float>();
  step.output_rows = firstRows.data();
  step.sequence_rows = sequenceRows.data();
  step.sequences = places.data();
  if (sources) {
    step.row_sequence = rowSequence.data();
    step.cache_positions = cachePositions.data();
    step.sources = places.data();
  }
  step.outputs = outputRows.data();
  step.rows = rows;
  step.num_sequences = step.num_outputs = numSequences;
  step.max_rows = maxRows;
  step.kernel_profile = profile->beginStep();
  HEDDLE_RETURN_IF_ERROR(runStep(step));
  profile->endStep(profiled.data(), numSequences, StepProfile::Sees::All);
  return checkFinite();
}

Status Encoder::checkFinite() const {
  for (unsigned i = 0; i < outputRows.size(); ++i) {
    const package::EncoderOutput &output = *model.metadata().encoder()->outputs()->Get(i);
    int64_t width = output.width(), count = output.of_sequences() ? numSequences : rows;
    for (int64_t row = 0; row < count; ++row)
      if (!allFinite(outputRows[i] + row * width, width))
        return Status(StatusCode::NotFinite, output.of_sequences()
                                                 ? format("%s of a sequence that begins with token %d is not finite",
                                                          output.name()->c_str(), ids[firstRows[row]])
                                                 : format("%s of token %d at position %d is not finite",
                                                          output.name()->c_str(), ids[row], positions[row]));
  }
  return Status();
}

Status Encoder::run(const EncoderInput *inputs, size_t numInputs, TakeEncoding take, void *user,
                    const int32_t *sequences) {
  HEDDLE_RETURN_IF_ERROR(check(inputs, numInputs));
  int64_t total = 0, done = 0;
  for (size_t i = 0; i < numInputs; ++i)
    total += inputs[i].count;
  for (size_t first = 0; first < numInputs;) {
    size_t next = fill(inputs, first, numInputs);
    if (sources)
      HEDDLE_RETURN_IF_ERROR(placeSources(inputs + first, sequences + first));
    HEDDLE_RETURN_IF_ERROR(compute());
    for (int64_t i = 0; sources && i < numSequences; ++i)
      sources->setLength(sequences[first + size_t(i)], inputs[first + size_t(i)].count);
    for (int64_t i = 0; take && i < numSequences; ++i) {
      for (unsigned output = 0; output < taken.size(); ++output) {
        const package::EncoderOutput &kind = *model.metadata().encoder()->outputs()->Get(output);
        taken[output] = outputRows[output] + (kind.of_sequences() ? i : int64_t(firstRows[i])) * kind.width();
      }
      take(user, first + i, taken.data());
    }
    first = next;
    done += rows;
    if (progress.report && !progress.report(progress.user, done, total))
      return Status(StatusCode::Cancelled, "interrupted");
  }
  return Status();
}

} // namespace heddle

const heddle::EncoderSupport heddle_part_encoder = {heddle::Encoder::createLinked};
