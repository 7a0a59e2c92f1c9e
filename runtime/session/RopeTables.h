// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cosines and sines of rotary position embedding, filled row by row as positions come into use. Two kinds of scaling depend on the
// length of a sequence, as in Hugging Face transformers:
//   Longrope  has a second set of frequencies for sequences longer than the original context. Keys in the cache were rotated with
//             the other set, so a sequence that crosses the border is computed again.
//   Dynamic   lets theta grow with the length once it exceeds the original context; cached keys keep their rotation.
#ifndef HEDDLE_RUNTIME_SESSION_ROPETABLES_H
#define HEDDLE_RUNTIME_SESSION_ROPETABLES_H

#include "runtime/session/Package.h"
#include "runtime/session/Reserved.h"

#include <array>
#include <vector>

namespace heddle {

class RopeTables {
public:
  // What of a sequence's length decides the frequencies; sequences of different modes do not share a step.
  struct Mode {
    bool isLong = false;       // Longrope: beyond the original context
    int64_t dynamicLength = 0; // Dynamic: the length once beyond it
    bool operator==(const Mode &other) const { return isLong == other.isLong && dynamicLength == other.dynamicLength; }
  };

  Status create(const package::Package &package, int64_t context);
  // Rows of an image rotate by positions of their own where tables have axes: the number, from `context` on, that stands for these as a position; -1
  // where there are too many. And what such a number stands for.
  struct Place {
    int32_t first;                    // of the image
    std::array<int32_t, 3> positions; // time, row, column
    int32_t next;                     // of the token behind the image
  };
  int32_t numberOf(const Place &place);
  const Place *placeOf(int64_t position) const {
    return position < contextLength ? nullptr : &places[size_t(position - contextLength)];
  }

  bool dependsOnLength() const { return originalContext != 0; }
  Mode modeOf(int64_t length) const;
  // Fills the rows of `positions`, each in [0, context).
  void prepare(const Mode &mode, const int32_t *positions, int64_t count);
  // The same of positions [begin, end).
  void prepareRange(const Mode &mode, int64_t begin, int64_t end);
  // Of the last prepare().
  const Mode &mode() const { return currentMode; }
  // (num_tables): (context, rotary_dim) each, for the mode of the last prepare().
  const float *const *tables() const { return current.data(); }
  size_t numTables() const { return all.size(); }
  // Of each table: positions of the context, and behind them the numbers of places.
  int64_t numRows() const { return contextLength + mostPlaces; }
  // Behind the last row of those side by side with `position` that somebody may have asked for: numbers of places have no row before.
  int64_t endBehind(int64_t position) const {
    return position < contextLength ? contextLength : contextLength + numPlaces;
  }
  uint32_t rotaryDim(size_t table) const { return all[table].source->rotary_dim(); }

private:
  struct Table {
    const package::RopeTable *source;
    float *rows[2];                      // (context, rotary_dim): [1] for Longrope's long frequencies
    int64_t *filled[2];                  // (context): 1 + the dynamic length that the row was computed for; 0: not yet
    std::vector<float> dynamicFrequency; // (rotary_dim / 2) for dynamicLength
    int64_t dynamicLength = 0;
  };

  void select(const Mode &mode);
  void fillRow(Table &table, const Mode &mode, int64_t position);

  int64_t contextLength = 0, mostPlaces = 0, numPlaces = 0;
  ReservedArray<Place> places; // (mostPlaces), of which numPlaces are: steps add to it, and allocate nothing
  int64_t lastPlace = 0;       // that was asked for: those of an image follow each other
  std::vector<Table> all;
  std::vector<const float *> current;
  Mode currentMode;
  Reserved memory;
  int64_t originalContext = 0; // of scaled tables, 0 without
  bool hasLongrope = false, hasDynamic = false;
};

} // namespace heddle

#endif
