// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls a function that glibc has since 2.36.
int fsopen(const char *name, unsigned flags);
int main(void) {
  return fsopen("ext4", 0);
}
