// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

// expected-error @+2 {{expected ::heddle::QuantKind to be one of}}
// expected-error @+1 {{failed to parse}}
func.func private @unknown_format(tensor<2x256xf32, #heddle.quant<q9_9>>)
