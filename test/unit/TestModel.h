// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reference model in a file, opened; tests change `metadata` or `weights` and open it again.
#ifndef HEDDLE_TEST_UNIT_TESTMODEL_H
#define HEDDLE_TEST_UNIT_TESTMODEL_H

#include "test/unit/TestPackage.h"

#include "runtime/session/Session.h"
#include "test/unit/ReferenceModel.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace heddle::reference {

struct TestModel {
  Bytes weights = readWeights();
  package::PackageT metadata = makeMetadata(weights);
  Bytes bytes;
  heddle_model code;
  std::unique_ptr<Package> package;

  TestModel() { open(); }
  void open() {
    bytes = makePackage(metadata, weights);
    code = makeCode(bytes);
    Status status = Package::openFile(writeFile("model", makeElf(bytes, weights)), &code, {}, package);
    ASSERT_TRUE(status.isOk()) << status.message();
  }
  std::unique_ptr<Session> session(SessionOptions options = {}) {
    std::unique_ptr<Session> made;
    if (!options.threads)
      options.threads = 1;
    Status status = Session::create(*package, options, made);
    EXPECT_TRUE(status.isOk()) << status.message();
    return made;
  }
};

} // namespace heddle::reference

#endif
