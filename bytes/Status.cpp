// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Status.h"

namespace heddle {

void Status::Delete::operator()(InputPlace *place) const {
  delete place;
}

Status::Status(const Status &other)
    : statusCode(other.statusCode), text(other.text), where(other.where ? new InputPlace(*other.where) : nullptr) {}

Status &Status::operator=(const Status &other) {
  return *this = Status(other);
}

InputPlace &Status::knownPlace() {
  if (!where)
    where.reset(new InputPlace);
  return *where;
}

static void addName(std::string &known, std::string_view name) {
  if (known.empty())
    known.assign(name);
}

Status Status::inFile(std::string_view file) && {
  if (!isOk())
    addName(knownPlace().file, file);
  return std::move(*this);
}

Status Status::atByte(uint64_t offset) && {
  if (!isOk() && !knownPlace().offset)
    where->offset = offset;
  return std::move(*this);
}

Status Status::ofTensor(std::string_view name) && {
  if (!isOk())
    addName(knownPlace().tensor, name);
  return std::move(*this);
}

Status Status::ofOp(std::string_view name) && {
  if (!isOk())
    addName(knownPlace().op, name);
  return std::move(*this);
}

Status Status::at(InputPlace place) && {
  if (!isOk() && !where)
    where.reset(new InputPlace(std::move(place)));
  return std::move(*this);
}

Status Status::saying(std::string message) && {
  text = std::move(message);
  return std::move(*this);
}

Status Status::as(StatusCode code) && {
  statusCode = code;
  return std::move(*this);
}

Status errorIn(std::string_view file, const std::string &what) {
  return invalidInput(printable(file, 1024) + ": " + what).inFile(file);
}

Status errorAt(std::string_view file, uint64_t offset, const std::string &what) {
  return errorIn(file, "byte " + std::to_string(offset) + ": " + what).atByte(offset);
}

} // namespace heddle
