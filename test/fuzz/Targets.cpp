// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/fuzz/Targets.h"

std::string heddle::fuzz::wrongMessage(const std::string &message) {
  if (message.empty())
    return "an error without a message";
  if (message.size() > 4096)
    return "a message of " + std::to_string(message.size()) + " bytes";
  return message.find('\n') == message.npos ? std::string() : "a message of several lines: " + message;
}
