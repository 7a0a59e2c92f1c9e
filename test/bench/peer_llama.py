# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""llama.cpp's side of a comparison, timed around llama_decode: no sampling, no text.

peer_llama.py MODEL.gguf THREADS     needs PyPI llama-cpp-python

Says {"name": …} when the model is loaded, then answers each line of stdin, {"prompt": …, "generate": …, "depth": …, "batch": …, "flash": …}, by
{"prefill": tokens/s, "decode": tokens/s} of one round; a prompt of 0 tokens is left out. Ids are arbitrary: speed does not depend on them.
{"first_token": N} is answered by {"seconds": …} of loading the file once more, and of reading N tokens.
"""
import ctypes
import json
import sys
import time

import llama_cpp as llama

CHUNK = 512


def check(failed, what):
    if failed:
        sys.exit(f"peer_llama.py: {what} failed")


class Peer:
    def __init__(self, path, threads):
        self.silent = llama.llama_log_callback(lambda *_: None)
        llama.llama_log_set(self.silent, ctypes.c_void_p())
        llama.llama_backend_init()
        self.path = path
        self.model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
        check(not self.model, f"loading {path}")
        self.vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        self.threads, self.context, self.made_for = threads, None, None
        self.batch = llama.llama_batch_init(CHUNK, 0, 1)

    def open(self, tokens, batch, flash):
        """A context of that size, kept from round to round."""
        if self.made_for == (tokens, batch, flash):
            return
        if self.context:
            llama.llama_free(self.context)
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_seq_max = batch * (tokens + CHUNK), batch
        params.n_batch = params.n_ubatch = CHUNK
        params.n_threads = params.n_threads_batch = self.threads
        params.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.context = llama.llama_init_from_model(self.model, params)
        check(not self.context, "making a context")
        self.made_for = (tokens, batch, flash)

    def decode(self, rows):
        """rows: (position, sequence, whether its logits are wanted)."""
        self.batch.n_tokens = len(rows)
        for index, (position, sequence, wanted) in enumerate(rows):
            self.batch.token[index] = (position * 7919 + 13) % self.vocab
            self.batch.pos[index], self.batch.n_seq_id[index], self.batch.logits[index] = position, 1, wanted
            self.batch.seq_id[index][0] = sequence
        check(llama.llama_decode(self.context, self.batch), "llama_decode")

    def feed(self, sequence, count):
        for begin in range(0, count, CHUNK):
            end = min(begin + CHUNK, count)
            self.decode([(position, sequence, position + 1 == count) for position in range(begin, end)])

    def clear(self):
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)

    def first_token(self, prompt):
        """The better of both ways of attention."""
        model, best = self.model, float("inf")
        try:
            for flash in (True, False):
                start = time.perf_counter()
                self.model = llama.llama_model_load_from_file(self.path.encode(), llama.llama_model_default_params())
                self.open(prompt, 1, flash)
                self.decode([(position, 0, position + 1 == prompt) for position in range(prompt)])
                llama.llama_get_logits_ith(self.context, prompt - 1)  # choosing among them is left out: it would be Python's time
                best = min(best, time.perf_counter() - start)
                llama.llama_free(self.context)
                self.context, self.made_for = None, None
                llama.llama_model_free(self.model)
        finally:
            self.model = model
        return {"seconds": best}

    def round(self, prompt, generate, depth, batch, flash):
        self.open(max(prompt, depth + 1 + generate), batch, flash)
        result = {}
        if prompt:
            self.clear()
            start = time.perf_counter()
            self.feed(0, prompt)
            result["prefill"] = prompt / (time.perf_counter() - start)
        self.clear()
        for sequence in range(batch):
            self.feed(sequence, depth + 1)
        start = time.perf_counter()
        for position in range(depth + 1, depth + 1 + generate):
            self.decode([(position, sequence, True) for sequence in range(batch)])
        result["decode"] = generate * batch / (time.perf_counter() - start)
        return result


def main():
    peer = Peer(sys.argv[1], int(sys.argv[2]))
    print(json.dumps({"name": f"llama.cpp (llama-cpp-python {llama.__version__})"}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(peer.first_token(request["first_token"]) if "first_token" in request else peer.round(**request)), flush=True)


main()
