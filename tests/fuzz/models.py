"""Model files that somebody has damaged, by accident or not."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hypothesis import strategies as st

from tests.fuzz.arrays import Marks, archived, saved
from tests.fuzz.damage import VALUES, changed, damaged

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.weights.h5"
HOSTILE: Final = st.sampled_from(
    [
        {"module": "os", "class_name": "function", "config": "mkdir", "registered_name": "mkdir"},
        {"module": "os", "class_name": "mkdir", "config": {"path": "executed"}, "registered_name": None},
        {"module": "builtins", "class_name": "function", "config": "exec", "registered_name": "function"},
        {"class_name": "__lambda__", "config": {"value": "4wEAAAAA"}},
        {"module": "keras.layers", "class_name": "Lambda", "config": {"function": "lambda x: x"}},
        {"module": "keras.layers", "class_name": "TFSMLayer", "config": {"filepath": "folder"}},
        {"module": "keras.utils", "class_name": "get_file", "config": {"fname": "executed"}},
        {"class_name": "__typespec__", "module": "os", "config": ["mkdir", "executed"]},
        {"class_name": "__tensor__", "config": {"value": [1.0], "dtype": "float32"}},
        {"class_name": "__numpy__", "config": {"value": [[1], [2, 3]], "dtype": "O"}},
        {"module": "keras.layers", "class_name": "Dense", "config": {"units": 10**12}},
        {"module": "keras.layers", "class_name": "RNN", "config": {"cell": None}},
        {"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": "m.keras"}},
    ]
)
WORDS: Final = st.sampled_from(["Dense", "LSTM", "Conv2D", "Flatten", "Embedding", "Sequential", "Functional", "relu"])
OTHERS: Final = VALUES | HOSTILE | WORDS | st.sampled_from([[None, 3], [None, None], [3], "float16", "int8", "string"])
MORE: Final = st.sampled_from(
    [
        {"../executed": b"out"},
        {"executed": b"", "assets/": b"", "assets/a.txt": b"a"},
        {"model.pkl": b"cos\nmkdir\n(S'executed'\ntR."},
        {"saved_model.pb": b"\x08\x01"},
        {"more.h5": b"\x89HDF\r\n\x1a\n"},
        {"a.npy": saved(Marks())},  # type: ignore[arg-type]
        {"a.npz": archived({"a.npy": saved(Marks())})},  # type: ignore[arg-type]
        {"\x1b[2J": b"", "x" * 5000: b"x"},
        {"zeros": bytes(2**22)},
        {"metadata.json": b"[", "variables.h5": b""},
    ]
)


def members(file: Path) -> dict[str, bytes]:
    """Return what is in an archive."""
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@st.composite
def damaged_models(draw: st.DrawFn, whole: Mapping[str, bytes]) -> bytes:
    """Draw the file of a model with another configuration, other weights, or other members; or a broken archive."""
    parts = dict(whole)
    match draw(st.sampled_from(["archive", "config", "config", "bytes", "weights", "weights", "members"])):
        case "archive":
            return draw(damaged(archived(parts, draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])))))
        case "config":
            parts[CONFIG] = json.dumps(draw(changed(json.loads(parts[CONFIG]), OTHERS))).encode()
        case "bytes":
            parts[CONFIG] = draw(damaged(parts[CONFIG]))
        case "weights":
            parts[WEIGHTS] = draw(damaged(parts[WEIGHTS]))
        case "members":
            parts |= draw(MORE)
            for name in draw(st.lists(st.sampled_from(list(parts)), max_size=2)):
                parts.pop(name, None)
    return archived(parts, zipfile.ZIP_STORED)
