# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs models that `heddle compile --emit=package` (or `--emit=lib`) made, through the C interface heddle.h.

    with heddle.Package("model.package") as package, heddle.Session(package) as session:
        print(session.generate("The capital of France is", max_tokens=24).text)

The library is libheddle.so of the installed wheel, or the file that HEDDLE_LIBRARY names. A failure is a heddle.Error with the library's
line. One object is used by one thread at a time; a package may be shared.
"""
import collections
import ctypes
import os
import pathlib

__all__ = ["Error", "Generation", "Package", "Session", "version"]

Generation = collections.namedtuple("Generation", "ids text")


class Error(RuntimeError):
    """`status`: a heddle_status of heddle.h."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class _SessionOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("threads", ctypes.c_int32), ("max_sequences", ctypes.c_int32),
                ("context", ctypes.c_int64), ("keep_hidden", ctypes.c_int32), ("deterministic", ctypes.c_int32),
                ("device", ctypes.c_char_p)]


class _GenerateOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("max_tokens", ctypes.c_int32), ("ignore_eos", ctypes.c_int32),
                ("temperature", ctypes.c_float), ("top_k", ctypes.c_int32), ("top_p", ctypes.c_float),
                ("min_p", ctypes.c_float), ("repetition_penalty", ctypes.c_float), ("seed", ctypes.c_uint64)]


_TokenCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)
_ids, _sizes, _handles = (ctypes.POINTER(kind) for kind in (ctypes.c_int32, ctypes.c_size_t, ctypes.c_void_p))
_SIGNATURES = {
    "heddle_error_message": (ctypes.c_char_p, []),
    "heddle_version_string": (ctypes.c_char_p, []),
    "heddle_package_open_file": (ctypes.c_int, [ctypes.c_char_p, _handles]),
    "heddle_package_check": (ctypes.c_int, [ctypes.c_void_p]),
    "heddle_package_close": (None, [ctypes.c_void_p]),
    "heddle_package_name": (ctypes.c_char_p, [ctypes.c_void_p]),
    "heddle_package_vocab_size": (ctypes.c_int64, [ctypes.c_void_p]),
    "heddle_package_hidden_size": (ctypes.c_int64, [ctypes.c_void_p]),
    "heddle_package_context": (ctypes.c_int64, [ctypes.c_void_p]),
    "heddle_package_encode": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, _ids, ctypes.c_size_t, _sizes]),
    "heddle_package_decode": (ctypes.c_int, [ctypes.c_void_p, _ids, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, _sizes]),
    "heddle_session_create": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(_SessionOptions), _handles]),
    "heddle_session_destroy": (None, [ctypes.c_void_p]),
    "heddle_session_length": (ctypes.c_int64, [ctypes.c_void_p, ctypes.c_int32]),
    "heddle_session_reset": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int32]),
    "heddle_session_generate": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int32, _ids, ctypes.c_size_t, ctypes.POINTER(_GenerateOptions),
                                               _TokenCallback, ctypes.c_void_p, _sizes]),
}
_opened = None


def _library():
    """The library, which is opened when something first needs it: its module is of use for the tools without it."""
    global _opened
    if _opened is None:
        path = os.environ.get("HEDDLE_LIBRARY") or next(map(str, pathlib.Path(__file__).parent.rglob("libheddle.so")), None)
        if path is None:
            raise Error(1, "no libheddle.so in this installation of heddle: HEDDLE_LIBRARY can name one")
        library = ctypes.CDLL(path)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        _opened = library
    return _opened


def _call(name, *arguments):
    library = _library()
    status = getattr(library, name)(*arguments)
    if status != 0:
        raise Error(status, library.heddle_error_message().decode())


def _array(ids):
    ids = list(ids)
    if not all(-2**31 <= one < 2**31 for one in ids):  # ctypes would cut the number off
        raise Error(2, "ids are integers of 32 bits")
    return (ctypes.c_int32 * len(ids))(*ids)


def version():
    """Of the library: "0.1.0"."""
    return _library().heddle_version_string().decode()


class _Handle:
    """What the library gave, until it is closed."""
    _close = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()

    def close(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            getattr(_library(), self._close)(handle)

    def _open(self):
        if not self._handle:
            raise Error(2, f"this {type(self).__name__.lower()} is closed")
        return self._handle


class Package(_Handle):
    """An opened model."""
    _close = "heddle_package_close"

    def __init__(self, path):
        handle = ctypes.c_void_p()
        _call("heddle_package_open_file", os.fsencode(path), ctypes.byref(handle))
        self._handle = handle.value

    name = property(lambda self: _library().heddle_package_name(self._open()).decode())
    vocab_size = property(lambda self: _library().heddle_package_vocab_size(self._open()))
    hidden_size = property(lambda self: _library().heddle_package_hidden_size(self._open()))
    context = property(lambda self: _library().heddle_package_context(self._open()))

    def check(self):
        """Compares the hashes of all weights and of the code."""
        _call("heddle_package_check", self._open())

    def encode(self, text, plain=False):
        """Ids of a prompt; `plain`: special tokens are not parsed and BOS is not added."""
        data, count = text.encode(), ctypes.c_size_t()
        arguments = (self._open(), data, len(data), int(plain))
        _call("heddle_package_encode", *arguments, None, 0, ctypes.byref(count))
        ids = (ctypes.c_int32 * count.value)()
        _call("heddle_package_encode", *arguments, ids, len(ids), ctypes.byref(count))
        return list(ids)

    def decode(self, ids):
        array, size = _array(ids), ctypes.c_size_t()
        _call("heddle_package_decode", self._open(), array, len(array), None, 0, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        _call("heddle_package_decode", self._open(), array, len(array), text, size.value, ctypes.byref(size))
        return text.raw[:size.value].decode(errors="replace")


class Session(_Handle):
    """The state of sequences over a package, which stays open as long as the session. Options are those of heddle_session_options."""
    _close = "heddle_session_destroy"

    def __init__(self, package, threads=0, max_sequences=1, context=0, deterministic=False, device=None):
        self.package = package
        options = _SessionOptions(ctypes.sizeof(_SessionOptions), threads, max_sequences, context, 0, int(deterministic),
                                  None if device is None else device.encode())
        handle = ctypes.c_void_p()
        _call("heddle_session_create", package._open(), ctypes.byref(options), ctypes.byref(handle))
        self._handle = handle.value

    def length(self, sequence=0):
        return _library().heddle_session_length(self._open(), sequence)

    def reset(self, sequence=0):
        _call("heddle_session_reset", self._open(), sequence)

    def generate(self, prompt, max_tokens=0, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=0,
                 ignore_eos=False, sequence=0, on_token=None):
        """Appends `prompt`, a text or ids, and generates. Gives the new ids and their text. `on_token(id, text)` is called with each as it
        comes, with the whole characters that it completes; something true ends the generation."""
        ids = _array(self.package.encode(prompt) if isinstance(prompt, str) else prompt)
        options = _GenerateOptions(ctypes.sizeof(_GenerateOptions), max_tokens, int(ignore_eos), temperature, top_k, top_p, min_p,
                                   repetition_penalty, seed)
        new, pieces, raised = [], [], []

        def take(_, token, text, size):
            try:
                piece = ctypes.string_at(text, size).decode(errors="replace") if size else ""
                new.append(token)
                pieces.append(piece)
                return int(bool(on_token and on_token(token, piece)))
            except BaseException as error:  # nothing may pass through the library
                raised.append(error)
                return 1

        count = ctypes.c_size_t()
        _call("heddle_session_generate", self._open(), sequence, ids, len(ids), ctypes.byref(options), _TokenCallback(take), None,
              ctypes.byref(count))
        if raised:
            raise raised[0]
        return Generation(new, "".join(pieces))
