# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_encoder_report.py REPORT MATMULS ATTENTIONS: an encoder's graph runs on kernels: so many packed matmuls and attentions, and no loop
# that multiplies and adds up.
import json
import sys

with open(sys.argv[1]) as file:
    launches = [launch for function in json.load(file)["functions"] for launch in function["launches"]]
kernels = [launch["kernel"] for launch in launches]
contractions = [launch["location"] for launch in launches
                if launch["kernel"] == "contraction" or ("reduced" in launch["what"] and sorted(launch["fused"]) == ["addf", "mulf"])]
assert not contractions, f"contractions as loops or unpacked: {contractions}"
assert kernels.count("packed_matmul") + kernels.count("integer_matmul") == int(sys.argv[2]), kernels
assert kernels.count("attention") == int(sys.argv[3]), kernels
