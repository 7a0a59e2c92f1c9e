// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// weights[h, i, :] = softmax(softcap(scale * query[i, h] @ key[:, h / group]^T) + positions, sink), over the keys that the mask lets through,
// as `attention` of dialect/ModelOps.td has it. Which kernel has run is told by the counts of launches, which the code keeps under --profile.
#include "runtime/session/AttentionRecorder.h"

#include "bytes/HalfFloats.h"

#include <algorithm>
#include <cmath>

namespace heddle {

uint64_t AttentionRecorder::numbersOf(const package::Package &metadata, uint64_t tokens, uint64_t sources) {
  uint64_t count = 0;
  for (const package::Attention *attention : *metadata.attentions()) {
    bool ofSource = attention->role() == package::AttentionRole::Encoder && metadata.task() == package::Task::Seq2Seq;
    uint64_t queries = ofSource ? sources : tokens;
    count +=
        attention->num_heads() * queries * (attention->role() == package::AttentionRole::Cross ? sources : queries);
  }
  return count;
}

namespace {

// Bytes of the arena up to the end of the last of `rows` rows.
bool fits(const package::Place *place, uint64_t rows, uint64_t width, const package::MemoryPlan &plan,
          uint64_t maxRows) {
  return place && place->stride() >= width && place->stride() < (1u << 30) && place->per_row() <= plan.per_row() &&
         place->offset() <= plan.fixed() + plan.per_row() * maxRows &&
         place->per_row() * maxRows + place->offset() + (rows - 1) * place->stride() + width <=
             plan.fixed() + plan.per_row() * maxRows;
}

uint64_t sizeOf(package::KvType type) {
  return type == package::KvType::F32 ? 4 : type == package::KvType::Q8_0 ? 1 : 2;
}

// Numbers of the weights at `at`.
bool fitsWeights(const package::Package &metadata, int64_t at, uint64_t bytes) {
  return at >= 0 && uint64_t(at) <= metadata.weights_size() && bytes <= metadata.weights_size() - uint64_t(at);
}

bool isSound(const package::Package &metadata, const package::Attention &a) {
  uint64_t heads = a.num_heads(), width = heads * a.head_dim() * sizeof(float);
  bool encodes = a.role() == package::AttentionRole::Encoder;
  if (heads < 1 || heads > 4096 || !a.num_kv_heads() || heads % a.num_kv_heads() || !a.head_dim() ||
      a.head_dim() > 4096 || !a.kernels() || !a.kernels()->size() || !metadata.kernels())
    return false;
  for (uint32_t kernel : *a.kernels())
    if (kernel >= metadata.kernels()->size())
      return false;
  uint64_t maxRows = encodes ? metadata.encoder() ? metadata.encoder()->max_rows() : 0 : metadata.memory()->max_rows();
  if (!maxRows || !fits(a.query(), maxRows, width, *metadata.memory(), maxRows))
    return false;
  if (!a.cached() && (!encodes || !fits(a.key(), maxRows, uint64_t(a.num_kv_heads()) * a.head_dim() * sizeof(float),
                                        *metadata.memory(), maxRows)))
    return false;
  if (a.cached()) {
    const package::KvPlan *plan = a.role() != package::AttentionRole::Cross ? metadata.kv()
                                  : metadata.encoder()                      ? metadata.encoder()->cross()
                                                                            : nullptr;
    uint64_t head = uint64_t(HEDDLE_KV_PAGE_SIZE) * a.head_dim() * sizeOf(a.key_type());
    head += a.key_type() == package::KvType::Q8_0 ? uint64_t(HEDDLE_KV_PAGE_SIZE) * a.head_dim() / 32 * 2 : 0;
    if (!plan || head > a.key_head_bytes() || a.key_offset() > plan->page_bytes() ||
        a.key_head_bytes() > (plan->page_bytes() - a.key_offset()) / a.num_kv_heads() || // which cannot wrap
        (a.key_type() == package::KvType::Q8_0 && a.head_dim() % 32) || (a.key_pairs() && a.head_dim() % 2))
      return false;
  }
  if (a.sinks() >= 0 && !fitsWeights(metadata, a.sinks(), heads * sizeof(float)))
    return false;
  uint64_t rows = a.rows() ? a.rows()->size() : 0, starts = a.starts() ? a.starts()->size() : 0, most = 0;
  if (rows && rows != starts + 1)
    return false;
  for (uint64_t i = 0; i < rows; ++i) {
    if (a.rows()->Get(unsigned(i)) < 0)
      return false;
    most = std::max(most, uint64_t(a.rows()->Get(unsigned(i))));
  }
  if (a.positions() >= 0 && (a.positions_type() == package::KvType::Q8_0 ||
                             !fitsWeights(metadata, a.positions(), (most + 1) * heads * sizeOf(a.positions_type()))))
    return false;
  if (a.position_table() && a.position_table()->size() < (most + 1) * heads)
    return false;
  if (rows && a.positions() < 0 && !a.position_table() && !a.token_positions())
    return false;
  return !a.token_positions() ||
         (rows && a.buckets() > most &&
          fits(a.token_positions(), maxRows, 2 * heads * a.buckets() * sizeof(float), *metadata.memory(), maxRows));
}

float numberAt(const uint8_t *from, package::KvType type) {
  uint16_t half = 0;
  float number = 0;
  if (type == package::KvType::F32) {
    memcpy(&number, from, sizeof number);
    return number;
  }
  memcpy(&half, from, sizeof half);
  return type == package::KvType::BF16 ? bfloatToFloat(half) : halfToFloat(half);
}

const float *rowOf(const heddle_step &step, const package::Place &place, int64_t row) {
  return reinterpret_cast<const float *>(step.arena + place.offset() + place.per_row() * uint64_t(step.max_rows) +
                                         uint64_t(row) * place.stride());
}

// In eight sums, so that it can be vectorised.
float dot(const float *a, const float *b, int64_t count) {
  float sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int64_t lane = 0; lane < 8; ++lane)
      sums[lane] += a[i + lane] * b[i + lane];
  double sum = 0;
  for (float part : sums)
    sum += part;
  for (; i < count; ++i)
    sum += a[i] * b[i];
  return float(sum);
}

} // namespace

Status AttentionRecorder::prepare(int64_t tokens, int64_t sources) {
  all.clear();
  kernels.clear();
  for (const package::Attention *attention : *metadata.attentions()) {
    if (!isSound(metadata, *attention))
      return damagedFile(format("package: attention %zu does not fit the model", all.size()));
    bool ofSource = attention->role() == package::AttentionRole::Encoder && metadata.task() == package::Task::Seq2Seq;
    AttentionMap map;
    map.attention = attention;
    map.queries = ofSource ? sources : tokens;
    map.keys = attention->role() == package::AttentionRole::Cross ? sources : map.queries;
    map.weights.resize(size_t(attention->num_heads() * map.queries * map.keys));
    all.push_back(std::move(map));
    for (uint32_t kernel : *attention->kernels())
      if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end())
        kernels.push_back(kernel);
  }
  return Status();
}

KernelObserver AttentionRecorder::observer() {
  return {[](void *user, const heddle_step &step, int64_t done) {
            static_cast<AttentionRecorder *>(user)->kernelEnded(step, done);
          },
          this};
}

Status AttentionRecorder::finish() const {
  if (failed.isOk() && seen != pending.size())
    return Status::failure(
        format("a step has run %zu attentions, of which the package lists %zu", seen, pending.size()));
  return failed;
}

// An encode has outputs, a step none.
bool AttentionRecorder::belongsTo(const package::Attention &attention, const heddle_step &step) const {
  return (attention.role() == package::AttentionRole::Encoder) == (step.outputs != nullptr);
}

void AttentionRecorder::kernelEnded(const heddle_step &step, int64_t done) {
  if (done == 0) {
    if (failed.isOk())
      failed = finish(); // of the step before
    pending.clear();
    seen = 0;
    for (AttentionMap &map : all)
      if (belongsTo(*map.attention, step))
        pending.push_back(&map);
    return;
  }
  if (!failed.isOk() || !step.kernel_profile)
    return;
  uint64_t launches = 0;
  for (uint32_t kernel : kernels)
    launches += step.kernel_profile[kernel].launches;
  if (launches == seen)
    return;
  if (launches != seen + 1 || seen == pending.size()) {
    failed = Status::failure(format("a step has run %llu attentions, of which the package lists %zu",
                                    (unsigned long long)launches, pending.size()));
    return;
  }
  AttentionMap &map = *pending[seen++];
  heddle_step onHost = step;
  onHost.weights = weights;
  if (device)
    failed = fetch(onHost, *map.attention);
  if (failed.isOk())
    record(onHost, map);
}

// The first key that a query at `position` sees. Later ones see none before it.
static int64_t firstSeen(const package::Attention &attention, int64_t position) {
  if (int64_t chunk = attention.chunk())
    return position / chunk * chunk;
  int64_t window = attention.window();
  return window ? std::max<int64_t>(0, position - window + 1) : 0;
}

Status AttentionRecorder::fetchRows(const heddle_step &step, const package::Place &place, uint64_t width) {
  uint64_t begin = place.offset() + place.per_row() * uint64_t(step.max_rows);
  return device->download(arena.data() + begin, step.arena + begin, (uint64_t(step.rows) - 1) * place.stride() + width);
}

// Those that no query sees stay as they are; their pages may be gone.
Status AttentionRecorder::fetchKeys(heddle_step &step, const package::Attention &attention) {
  bool crosses = attention.role() == package::AttentionRole::Cross;
  const heddle_sequence *&its = crosses ? step.sources : step.sequences;
  uint64_t size = (crosses ? metadata.encoder()->cross() : metadata.kv())->page_bytes();
  uint64_t count = (uint64_t(its->past) + uint64_t(its->num_rows) + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE;
  if (count * size > pageBytes) {
    pages.release();
    HEDDLE_RETURN_IF_ERROR(pages.reserve(pageBytes = count * size, "copies of pages"));
  }
  pageAddresses.resize(count);
  for (uint64_t page = 0; page < count; ++page)
    pageAddresses[page] = pages.data() + page * size;
  for (auto page = uint64_t(firstSeen(attention, its->past)) / HEDDLE_KV_PAGE_SIZE; page < count; ++page)
    HEDDLE_RETURN_IF_ERROR(device->download(pageAddresses[page] + attention.key_offset(),
                                            its->pages[page] + attention.key_offset(),
                                            attention.num_kv_heads() * attention.key_head_bytes()));
  sequence = *its;
  sequence.pages = pageAddresses.data();
  its = &sequence;
  return Status();
}

Status AttentionRecorder::fetch(heddle_step &step, const package::Attention &attention) {
  const package::MemoryPlan &plan = *metadata.memory();
  uint64_t heads = attention.num_heads(), width = attention.head_dim() * sizeof(float);
  if (uint64_t size = plan.fixed() + plan.per_row() * uint64_t(step.max_rows); size > arenaBytes) {
    arena.release();
    HEDDLE_RETURN_IF_ERROR(arena.reserve(arenaBytes = size, "a copy of activations"));
  }
  HEDDLE_RETURN_IF_ERROR(fetchRows(step, *attention.query(), heads * width));
  if (!attention.cached())
    HEDDLE_RETURN_IF_ERROR(fetchRows(step, *attention.key(), attention.num_kv_heads() * width));
  if (attention.token_positions())
    HEDDLE_RETURN_IF_ERROR(
        fetchRows(step, *attention.token_positions(), 2 * heads * attention.buckets() * sizeof(float)));
  if (attention.cached() && step.num_sequences == 1)
    HEDDLE_RETURN_IF_ERROR(fetchKeys(step, attention));
  step.arena = arena.data();
  return Status();
}

// Keys [0, count) of a head, as f32.
void AttentionRecorder::loadKeys(const heddle_step &step, const package::Attention &attention, unsigned kvHead,
                                 int64_t count) {
  int64_t width = attention.head_dim();
  keys.resize(size_t(count * width));
  if (!attention.cached()) {
    for (int64_t j = 0; j < count; ++j)
      memcpy(keys.data() + j * width, rowOf(step, *attention.key(), j) + kvHead * width, width * sizeof(float));
    return;
  }
  const heddle_sequence &sequence =
      attention.role() == package::AttentionRole::Cross ? step.sources[0] : step.sequences[0];
  uint64_t size = sizeOf(attention.key_type());
  int64_t first = firstSeen(attention, sequence.past);
  for (int64_t j = first; j < count; ++j) {
    const uint8_t *plane =
        sequence.pages[j / HEDDLE_KV_PAGE_SIZE] + attention.key_offset() + kvHead * attention.key_head_bytes();
    int64_t slot = j % HEDDLE_KV_PAGE_SIZE;
    for (int64_t column = 0; column < width; ++column) {
      // compiler/codegen/targets/cpu/PageLayout.h has these orders; a device's pages have rows alone.
      int64_t element =
          attention.key_pairs() ? (column / 2 * HEDDLE_KV_PAGE_SIZE + slot) * 2 + column % 2 : slot * width + column;
      float &to = keys[size_t(j * width + column)];
      if (attention.key_type() != package::KvType::Q8_0) {
        to = numberAt(plane + uint64_t(element) * size, attention.key_type());
        continue;
      }
      int64_t block =
          attention.key_pairs() ? column / 32 * HEDDLE_KV_PAGE_SIZE + slot : slot * (width / 32) + column / 32;
      const uint8_t *scale = plane + HEDDLE_KV_PAGE_SIZE * width + block * 2;
      to = numberAt(scale, package::KvType::F16) * float(int8_t(plane[element]));
    }
  }
}

void AttentionRecorder::loadPositions(const heddle_step &step, const package::Attention &attention) {
  table.clear();
  if (attention.position_table())
    table.assign(attention.position_table()->begin(), attention.position_table()->end());
  if (attention.positions() < 0)
    return;
  int32_t rows = 1;
  for (unsigned i = 0; attention.rows() && i < attention.rows()->size(); ++i)
    rows = std::max(rows, attention.rows()->Get(i) + 1);
  uint64_t size = sizeOf(attention.positions_type());
  for (uint64_t i = 0; i < uint64_t(rows) * attention.num_heads(); ++i)
    table.push_back(numberAt(step.weights + attention.positions() + i * size, attention.positions_type()));
}

// What a score gets for the distance between its query and its key, both counted in the step's rows where tokens give it.
double AttentionRecorder::positionOf(const heddle_step &step, const package::Attention &attention, unsigned head,
                                     int64_t query, int64_t key, int64_t distance) const {
  unsigned heads = attention.num_heads();
  if (!attention.rows() || !attention.rows()->size())
    return table.empty() ? 0 : -double(table[head]) * double(distance);
  unsigned run = 0, starts = attention.starts() ? attention.starts()->size() : 0;
  while (run < starts && attention.starts()->Get(run) <= distance)
    ++run;
  unsigned row = unsigned(attention.rows()->Get(run));
  if (!attention.token_positions())
    return table[row * heads + head];
  const package::Place &place = *attention.token_positions();
  unsigned bucket = head * attention.buckets() + row;
  return double(rowOf(step, place, query)[bucket]) +
         double(rowOf(step, place, key)[heads * attention.buckets() + bucket]);
}

void AttentionRecorder::record(const heddle_step &step, AttentionMap &map) {
  const package::Attention &a = *map.attention;
  bool crosses = a.role() == package::AttentionRole::Cross, encodes = !a.cached();
  const heddle_sequence &sequence = crosses ? step.sources[0] : step.sequences[0];
  int64_t past = encodes ? 0 : step.sequences[0].past;
  int64_t count = encodes ? step.rows : int64_t(sequence.past) + sequence.num_rows;
  if (step.num_sequences != 1 || past + step.rows > map.queries || count > map.keys) {
    failed = Status::failure("a step has other sequences than those of the attention map");
    return;
  }
  unsigned group = a.num_heads() / a.num_kv_heads();
  const float *sinks = a.sinks() >= 0 ? reinterpret_cast<const float *>(step.weights + a.sinks()) : nullptr;
  loadPositions(step, a);
  std::vector<double> scores(size_t(count), 0);
  for (unsigned head = 0; head < a.num_heads(); ++head) {
    if (head % group == 0)
      loadKeys(step, a, head / group, count);
    for (int64_t row = 0; row < step.rows; ++row) {
      int64_t position = past + row, first = firstSeen(a, position), end = count;
      if (a.causal())
        end = std::min(end, position + 1);
      if (a.ahead())
        end = std::min(end, position + int64_t(a.ahead()));
      const float *query = rowOf(step, *a.query(), row) + size_t(head) * a.head_dim();
      double most = sinks ? double(sinks[head]) : -INFINITY, sum = 0;
      for (int64_t j = first; j < end; ++j) {
        double score = a.scale() * double(dot(query, keys.data() + j * a.head_dim(), a.head_dim()));
        if (a.softcap() != 0)
          score = a.softcap() * std::tanh(score / a.softcap());
        scores[size_t(j)] = score + positionOf(step, a, head, row, j, position - j);
        most = std::max(most, scores[size_t(j)]);
      }
      if (sinks)
        sum = std::exp(double(sinks[head]) - most);
      for (int64_t j = first; j < end; ++j)
        sum += scores[size_t(j)] = std::exp(scores[size_t(j)] - most);
      float *weights = map.weights.data() + (head * map.queries + position) * map.keys;
      for (int64_t j = first; j < end; ++j)
        weights[j] = float(scores[size_t(j)] / sum);
    }
  }
}

} // namespace heddle
