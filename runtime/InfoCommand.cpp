// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --info and --licenses.
#include "runtime/Cli.h"

namespace heddle {

Status runInfo(const Program &program) {
  return writeOut(packageText(program.package->onDisk()) + format("%-18s %s\n", "runtime", heddle_version_string()));
}

Status runLicenses(const Program &program) {
  const flatbuffers::String *license = program.metadata().license();
  return writeOut("model    " + (license && license->size() ? license->str() : "-") +
                  "\n"
                  "runtime  Heddle, Apache-2.0 WITH LLVM-exception\n"
                  "         FlatBuffers (Google), Apache-2.0\n"
                  "         PCRE2 (University of Cambridge), BSD-3-Clause\n"
                  "         utf8proc (Jan Behrens, Public Software Group, Steven G. Johnson and others), MIT; Unicode "
                  "data (Unicode, Inc.), Unicode-3.0\n");
}

} // namespace heddle
