// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Safetensors.h"

#include "test/unit/TestPackage.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::reference;

namespace {

Bytes fileOf(const std::string &header, size_t dataSize) {
  uint64_t size = header.size();
  Bytes bytes(8);
  memcpy(bytes.data(), &size, 8);
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.resize(bytes.size() + dataSize);
  return bytes;
}

std::string errorOf(const Bytes &bytes) {
  SafetensorsFile file;
  Status status = file.open(writeFile("tensors", bytes));
  EXPECT_EQ(status.exitCode(), status.isOk() ? 0 : 2);
  return status.message();
}

TEST(Safetensors, writesWhatItReads) {
  std::string path = scratchFolder() + "/written";
  float values[] = {1, 2, 3, 4, 5, 6};
  int64_t id = 7;
  ASSERT_TRUE(writeSafetensors(path, {{"a \"b\"", "F32", {2, 3}, values, sizeof values},
                                      {"id", "I64", {1}, &id, 8},
                                      {"none", "F32", {0, 5}, nullptr, 0}})
                  .isOk());
  SafetensorsFile file;
  Status status = file.open(path);
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.find("a \"b\"")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(memcmp(file.find("a \"b\"")->data, values, sizeof values), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.find("id")->data) % 8, 0u);
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST(Safetensors, acceptsEscapesSpacesAndMetadata) {
  EXPECT_EQ(errorOf(fileOf("{ \"__metadata__\": {\"k\": \"v\"}, \"\\u00e9\\ud83d\\ude00\" : "
                           "{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0, 1]} }  ",
                           1)),
            "");
  EXPECT_EQ(errorOf(fileOf("{}", 0)), "");
  // A field that the format does not have, as the reference takes it.
  EXPECT_EQ(
      errorOf(fileOf("{\"a\": {\"note\": [1, {}], \"dtype\": \"U8\", \"shape\": [], \"data_offsets\": [0, 1]}}", 1)),
      "");
}

TEST(SafetensorsErrors, everyRule) {
  auto tensor = [](const char *name, const char *dtype, const char *shape, const char *offsets) {
    return std::string("\"") + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
           ",\"data_offsets\":" + offsets + "}";
  };
  struct Case {
    std::string header;
    size_t data;
    const char *fragment;
  } cases[] = {
      {"[]", 0, "does not start with '{'"},
      {"{" + tensor("a", "F32", "[1]", "[0,4]"), 4, "expected ',' or '}', found the end"},
      {"{" + tensor("a", "F32", "[1]", "[0,4]") + "," + tensor("a", "F32", "[1]", "[4,8]") + "}", 8,
       "duplicate tensor 'a'"},
      {"{" + tensor("a", "F99", "[1]", "[0,4]") + "}", 4, "unknown dtype 'F99'"},
      {"{" + tensor("a", "F32", "[2]", "[0,4]") + "}", 4, "need 8 bytes, but data_offsets hold 4"},
      {"{" + tensor("a", "F32", "[-1]", "[0,4]") + "}", 4, "expected a non-negative integer"},
      {"{" + tensor("a", "F32", "[1.5]", "[0,4]") + "}", 4, "expected a non-negative integer"},
      {"{" + tensor("a", "F32", "[1e400]", "[0,4]") + "}", 4, "expected a non-negative integer"},
      {"{" + tensor("a", "F32", "[4294967296,4294967296]", "[0,0]") + "}", 0, "overflows 64 bits"},
      {"{" + tensor("a", "F32", "[1]", "[4,0]") + "}", 4, "data_offsets are reversed, [4, 0]"},
      {"{" + tensor("a", "F32", "[1]", "[0,4]") + "}", 3, "the file's 3 bytes of data"},
      {"{" + tensor("a", "F32", "[1]", "[0,4]") + "}", 5, "1 bytes after the last tensor"},
      {"{" + tensor("a", "F32", "[1]", "[4,8]") + "}", 8, "start at 4, expected 0 (hole)"},
      {"{" + tensor("a", "F32", "[1]", "[0,4]") + "," + tensor("b", "F32", "[1]", "[0,4]") + "}", 4,
       "start at 0, expected 4 (overlap)"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "'data_offsets' is missing"},
      {"{\"a\":{\"extra\":\"F32\"}}", 4, "'dtype' is missing"},
      {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 4, "duplicate field 'dtype'"},
      {"{\"a\":[]}", 0, "tensor 'a': header byte 5: expected an object"},
      {"{\"__metadata__\":{\"k\":1}}", 0, "expected strings"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate key '__metadata__'"},
      {"{\"a\xff\":{}}", 0, "not UTF-8"},
      {"{\"\\ud800\":{}}", 0, "surrogate"},
      {"{} x", 0, "text after the end"},
  };
  for (const Case &c : cases)
    EXPECT_NE(errorOf(fileOf(c.header, c.data)).find(c.fragment), std::string::npos)
        << c.header << ": " << errorOf(fileOf(c.header, c.data));
  EXPECT_NE(errorOf(Bytes(7)).find("too short: 7 bytes"), std::string::npos);
  Bytes lying = fileOf("{}", 0);
  lying[5] = 1;
  EXPECT_NE(errorOf(lying).find("header of"), std::string::npos);
  SafetensorsFile file;
  EXPECT_EQ(file.open("/dev/null").message(), "/dev/null: is not a regular file");
  EXPECT_NE(writeSafetensors("/nowhere/at/all", {}).message().find("the folder /nowhere/at does not exist"),
            std::string::npos);
}

TEST(SafetensorsErrors, truncationsOfAGoodFile) {
  std::string header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}";
  Bytes good = fileOf(header, 16);
  EXPECT_EQ(errorOf(good), "");
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(errorOf(Bytes(good.begin(), good.begin() + size)), "") << size;
}

} // namespace
