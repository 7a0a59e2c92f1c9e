#!/usr/bin/env bash
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# try_packages.sh PACKAGES MODEL ARCHIVE: installs each package of the folder PACKAGES in a bare Debian 12 of its own (the wheel: with python3-venv),
# compiles the folder MODEL there, and runs the result. The bare systems come from ARCHIVE, a URL; nothing else is downloaded. Needs root and
# debootstrap.
set -euo pipefail
packages=$(realpath "$1")
model=$(realpath "$2")
archive=$3
work=$(mktemp -d "$packages/try.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

# inside ROOT COMMAND…: in that root folder, with the machine's /proc and /dev; what is mounted goes with the command.
inside() {
  unshare --mount bash -euc 'for folder in proc dev; do mount --rbind "/$folder" "$0/$folder"; done
    exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"' "$@"
}

# try NAME COMMAND FOLDER: with what has been installed in FOLDER.
try() {
  local name=$1 heddle=$2 root=$3 ids
  cp -r "$model" "$root/model"
  inside "$root" "$heddle" compile /model -o /compiled --quiet
  ids=$(inside "$root" /compiled --prompt-ids 1,2,3 -n 8 --temp 0 --ignore-eos --print-ids)
  [[ $ids =~ ^([0-9]+,){7}[0-9]+$ ]] || { echo "try_packages: $name: the model answers '$ids'" >&2; exit 1; }
  echo "$name: compiles and answers $ids"
}

# bare NAME [OPTION…]: a bare system.
bare() {
  local name=$1
  shift
  unshare --mount debootstrap --variant=minbase "$@" bookworm "$work/$name" "$archive" > "$work/debootstrap.log" || { tail "$work/debootstrap.log" >&2; exit 1; }
}

shopt -s nullglob
for tarball in "$packages"/*.tar.xz; do
  bare tarball
  mkdir "$work/tarball/unpacked here"
  tar -C "$work/tarball/unpacked here" -xf "$tarball"
  try "$(basename "$tarball")" "/unpacked here/$(basename "$tarball" .tar.xz)/bin/heddle" "$work/tarball"
done
for wheel in "$packages"/*.whl; do
  bare wheel --include=python3-venv
  cp "$wheel" "$work/wheel/"
  inside "$work/wheel" python3 -m venv /venv
  inside "$work/wheel" /venv/bin/pip -q install --no-index "/$(basename "$wheel")"
  try "$(basename "$wheel")" /venv/bin/heddle "$work/wheel"
  inside "$work/wheel" /venv/bin/heddle compile /model -o /package --emit=package --quiet
  inside "$work/wheel" /venv/bin/python -c 'import heddle
with heddle.Package("/package") as package, heddle.Session(package) as session:
    print("module heddle", heddle.version, "answers", session.generate([1, 2, 3], max_tokens=8, ignore_eos=True).ids)'
done
for deb in "$packages"/*.deb; do
  depends=$(dpkg --field "$deb" Depends)
  [[ $depends =~ ^libc6\ .*libstdc\+\+6 ]] || { echo "try_packages: $(basename "$deb"): depends on '$depends'" >&2; exit 1; }
  bare deb
  cp "$deb" "$work/deb/heddle.deb"
  inside "$work/deb" dpkg --install /heddle.deb > "$work/dpkg.log" 2>&1 || { tail "$work/dpkg.log" >&2; exit 1; }
  try "$(basename "$deb")" heddle "$work/deb"
  inside "$work/deb" dpkg --purge heddle > "$work/dpkg.log" 2>&1
done
