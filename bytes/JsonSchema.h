// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which object a piece of JSON is that our tools and programs write: its key "schema" says one of these. Keys may be added to an object, so
// readers pass over what they do not know; where a key goes, or comes to mean something else, the number of the schema is raised.
// test/frontends/json-schemas.test makes each of them; compiler/tools/README.md lists them.
#ifndef HEDDLE_BYTES_JSONSCHEMA_H
#define HEDDLE_BYTES_JSONSCHEMA_H

namespace heddle::schema {

inline constexpr char modelInspection[] = "heddle-model-1";    // heddle inspect --json, of a model file
inline constexpr char binaryInspection[] = "heddle-binary-1";  // the same, of what was compiled
inline constexpr char report[] = "heddle-report-1";            // heddle compile --report=FILE.json
inline constexpr char diagnostic[] = "heddle-diagnostic-1";    // a line of --diagnostics=json
inline constexpr char schedules[] = "heddle-schedules-1";      // heddle tune
inline constexpr char tokens[] = "heddle-tokens-1";            // a line of heddle tokenize
inline constexpr char speed[] = "heddle-speed-1";              // BIN --bench --json, of a model that generates
inline constexpr char time[] = "heddle-time-1";                // the same of a model that encodes, or of a graph
inline constexpr char logprobs[] = "heddle-logprobs-1";        // a line of BIN --logprobs
inline constexpr char labels[] = "heddle-labels-1";            // a line of BIN --classify --json
inline constexpr char similarity[] = "heddle-similarity-1";    // a line of BIN --similarity --json
inline constexpr char ranking[] = "heddle-ranking-1";          // BIN --rerank --json
inline constexpr char tokenLabels[] = "heddle-token-labels-2"; // a line of BIN --token-classify --json
inline constexpr char masks[] = "heddle-masks-1";              // a line of BIN --fill-mask --json
inline constexpr char answer[] = "heddle-answer-1";            // a line of BIN --answer --json

} // namespace heddle::schema

#endif
