// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Status.h"

#include <gtest/gtest.h>

using namespace heddle;

TEST(Status, saysWhereAFaultLies) {
  Status status = errorAt("model.gguf", 8, "is bad").ofTensor("w");
  EXPECT_EQ(status.message(), "model.gguf: byte 8: is bad");
  ASSERT_TRUE(status.place());
  EXPECT_EQ(status.place()->file, "model.gguf");
  EXPECT_EQ(status.place()->offset, 8u);
  EXPECT_EQ(status.place()->tensor, "w");
  EXPECT_EQ(status.place()->op, "");
}

TEST(Status, keepsWhatWasKnownNearerToTheFault) {
  Status status =
      errorAt("inner", 1, "is bad").ofOp("a").atByte(2).inFile("outer").ofOp("b").as(StatusCode::Unsupported);
  EXPECT_EQ(status.place()->file, "inner");
  EXPECT_EQ(status.place()->offset, 1u);
  EXPECT_EQ(status.place()->op, "a");
  EXPECT_EQ(status.exitCode(), 2);
  Status other = Status(status).saying("otherwise");
  EXPECT_EQ(other.message(), "otherwise");
  EXPECT_EQ(other.place()->op, "a");
  EXPECT_NE(other.place(), status.place());
}

TEST(Status, successKnowsNoPlace) {
  Status success = Status().inFile("f").atByte(1).ofTensor("t").ofOp("o").at({});
  EXPECT_TRUE(success.isOk());
  EXPECT_FALSE(success.place());
  Status failure = errorIn("f", "is bad");
  failure = success;
  EXPECT_FALSE(failure.place());
}
