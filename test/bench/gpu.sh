#!/bin/sh
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks and times the code for NVIDIA GPUs on this machine's, with what `gpu.py pack build/gpu` made elsewhere: gpu.sh [BUNDLE [OUT]]
here=$(dirname "$0")
exec python3 "$here/gpu.py" run "${1:-$here/../../build/gpu}" "${2:-$here/../../build/gpu/report}"
