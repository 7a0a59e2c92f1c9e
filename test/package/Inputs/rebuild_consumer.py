# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""rebuild_consumer.py CMAKE GENERATOR MAKE FOLDER PREFIX MODEL: configures the consumer with this CMake and generator and says what each build does.

The first compiles the model, the second nothing, the third, for which a file of the model is newer, the model again.
"""
import pathlib
import shutil
import subprocess
import sys

cmake, generator, make, folder, prefix, model = sys.argv[1:]
folder = pathlib.Path(folder)
shutil.rmtree(folder, ignore_errors=True)
shutil.copytree(model, folder / "model")
source = pathlib.Path(__file__).parent / "consumer"
subprocess.run([cmake, "-S", source, "-B", folder / "build", "-G", generator, f"-DCMAKE_MAKE_PROGRAM={make}", "-DCMAKE_C_COMPILER=clang",
                f"-DCMAKE_PREFIX_PATH={prefix}", f"-DMODEL={folder / 'model'}"], check=True, stdout=subprocess.DEVNULL)
for what in ("first", "second", "third"):
    if what == "third":
        (folder / "model/config.json").touch()
    build = subprocess.run([cmake, "--build", folder / "build", "--target", "teller_compile"], check=True, capture_output=True, text=True)
    print(f"{what}: {'compiles' if 'Compiling model' in build.stdout else 'nothing'}")
