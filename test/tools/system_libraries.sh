#!/usr/bin/env bash
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# system_libraries.sh CMAKE BUILD: installs BUILD, which was configured with HEDDLE_BUNDLE_LIBRARIES=OFF, and moves it. There the tools load
# LLVM from the system and Halide from beside them, the linker is the system's, and a model compiles and runs.
set -euo pipefail
cmake=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$2" --prefix "$work/made" > "$work/log" || { tail "$work/log" >&2; exit 1; }
mv "$work/made" "$work/moved here"
installed="$work/moved here"
fail() { echo "system_libraries: $*" >&2; exit 1; }

[ "$(ls "$installed/lib/heddle/host")" = lib ] || fail "lib/heddle/host holds $(ls "$installed/lib/heddle/host")"
[ "$(ls "$installed/lib/heddle/host/lib")" = libHalide.so ] || fail "bundled: $(ls "$installed/lib/heddle/host/lib")"
[ -f "$installed/share/doc/heddle/licenses/Halide.txt" ] || fail "no licence of Halide"
for tool in "$installed"/bin/*; do "$tool" --help > /dev/null || fail "$tool does not start"; done
"$installed/bin/heddle" compile "$(dirname "$0")/../models/llama" -o "$work/model" --quiet
ids=$("$work/model" --prompt-ids 1,2,3 -n 8 --temp 0 --ignore-eos --print-ids)
[[ $ids =~ ^([0-9]+,){7}[0-9]+$ ]] || fail "the model answers '$ids'"
echo "system_libraries: compiles and answers $ids"
