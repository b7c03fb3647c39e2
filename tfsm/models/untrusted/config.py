"""A model's configuration names classes, functions and files: which of them Keras may be let near."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import keras

from tfsm.models.untrusted.archive import leaves_its_folder
from tfsm.models.untrusted.limits import MOST_DEPTH
from tfsm.models.untrusted.refusal import RefusedError, shown

CODE: Final = "it holds Python code, which runs when the model is loaded or called"
NAMED: Final = ("activations", "constraints", "initializers", "losses", "metrics", "optimizers", "regularizers")
"""Modules of Keras in which a function is found by its bare name."""
MODELING: Final = frozenset((*NAMED, "dtype_policies", "layers", "models", "ops", "quantizers", "random"))
"""Modules of Keras with nothing but parts of models in them."""
FORBIDDEN: Final = {
    "Lambda": CODE,
    "TFSMLayer": "it loads a SavedModel from a path of the file's choice, whose graph can read and write files",
    "TorchModuleWrapper": "it unpickles a PyTorch module, which runs any code the file names",
    "JaxLayer": "it calls functions that the file names",
    "FlaxLayer": "it calls functions that the file names",
}
PATHS: Final = ("filepath", "idf_weights", "vocabulary")
"""Settings of Keras' layers that are read as files where they are text."""
WORDS: Final = ("__bytes__", "__numpy__", "__tensor__")
"""Values that are data, whatever they look like."""
SPECIAL: Final = (*WORDS, "__ellipsis__", "__keras_tensor__", "__slice__")
"""What Keras makes itself, without looking for a class."""
OTHER: Final = "it is no part of a Keras model, and nobody has registered it here; loading the model could run it"
REGISTER: Final = "Import what registers it (keras.saving.register_keras_serializable) before loading, if it is yours"


def check_config(config: dict[str, Any]) -> None:
    """Refuse code, unknown classes and functions, and files elsewhere."""
    # What a model was trained with is not loaded, but code in it would show what the file is for.
    compiled = config.get("compile_config")
    for _ in _objects({"compile_config": compiled}):
        pass
    for node in _objects({key: value for key, value in config.items() if key != "compile_config"}):
        _check_object(node)


def _objects(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every dict with a class name, after a look at everything on the way: code, paths, depth."""
    waiting: list[tuple[str, Any, int, bool]] = [("", config, 0, False)]
    while waiting:
        key, value, depth, is_data = waiting.pop()
        if depth > MOST_DEPTH:
            raise RefusedError(f"a configuration nested deeper than {MOST_DEPTH}", "reading it overflows the stack")
        if isinstance(value, str) and not is_data:
            _check_text(key, value)
        elif isinstance(value, list):
            # A vocabulary of words may have any in it; what has settings of its own is no word.
            words = is_data or key == "vocabulary"
            waiting += ((key, item, depth + 1, words and not isinstance(item, dict)) for item in value)
        elif isinstance(value, dict):
            name = value.get("class_name")
            _check_code(value)
            if isinstance(name, str):
                yield value
            for inner, item in value.items():
                data = name in WORDS and inner == "config" if isinstance(item, dict) else is_data
                waiting.append((inner, item, depth + 1, data))


def _check_text(key: str, text: str) -> None:
    if key in PATHS:
        raise RefusedError(
            f"{_key(key)} = {shown(text)}",
            "it is read as a file or an address, which brings what lies there into the model",
        )
    if leaves_its_folder(text):
        raise RefusedError(
            f"{_key(key)} = {shown(text)}", "a path or an address outside of the model's file could be read"
        )


def _key(key: str) -> str:
    # A setting's name is the file's choice, too.
    return key if key.isidentifier() else shown(key)


def _check_code(node: dict[str, Any]) -> None:
    names = [node.get("class_name"), node.get("registered_name")]
    if "__lambda__" in names:
        raise RefusedError("a serialized lambda", CODE)
    for name in names:
        # A name may come with a package before it: "package>Lambda".
        short = name.rpartition(">")[2] if isinstance(name, str) else ""
        if short in FORBIDDEN:
            raise RefusedError(f"a layer of class {short} ({_label(node)})", FORBIDDEN[short])


def _label(node: dict[str, Any]) -> str:
    inner = node.get("config")
    return shown(inner.get("name", "") if isinstance(inner, dict) else node.get("name", ""))


def _check_object(node: dict[str, Any]) -> None:
    name, module = node["class_name"], node.get("module")
    if name == "function":
        _check_function(node.get("config"), module)
    elif name == "__typespec__":
        raise RefusedError(f"a type of module {shown(module)}", "loading it would import the module")
    elif name in SPECIAL or "module" not in node or is_registered(node.get("registered_name", name)):
        # Without a module, Keras looks among its own layers only.
        return
    elif not is_modeling(module) or not _is_class(module, name):
        raise RefusedError(f"the class {shown(name)} of module {shown(module)}", OTHER, REGISTER)


def _check_function(name: Any, module: Any) -> None:
    if is_registered(name):
        return
    # A name with dots in it would lead from a harmless module to any other.
    if isinstance(name, str) and name.isidentifier():
        found = any(hasattr(getattr(keras, place), name) for place in NAMED)
        if (module in (None, "builtins") and found) or module in (f"keras.{place}" for place in (*NAMED, "ops")):
            return
    raise RefusedError(f"the function {shown(name)} of module {shown(module)}", OTHER, REGISTER)


def _is_class(module: Any, name: str) -> bool:
    """Say whether a name is not one of Keras' public functions; what is not public Keras checks itself."""
    if not name.isidentifier():
        return False
    place: Any = keras
    for part in (*module.split(".")[1:], name):
        place = getattr(place, part, None)
    return place is None or isinstance(place, type)


def is_registered(name: Any) -> bool:
    """Say whether somebody has registered this name in this process."""
    return isinstance(name, str) and keras.saving.get_registered_object(name) is not None


def is_modeling(module: Any) -> bool:
    """Say whether a module is one of Keras' own that has parts of models.

    >>> [is_modeling(m) for m in ("keras", "keras.layers", "keras.src.ops.numpy", "keras.utils", "kerashack", "os")]
    [True, True, True, False, False, False]
    """
    if not isinstance(module, str):
        return False
    first, *rest = module.split(".")
    inner = rest[1:] if rest[:1] == ["src"] else rest
    return first == "keras" and (not rest or (bool(inner) and inner[0] in MODELING))
