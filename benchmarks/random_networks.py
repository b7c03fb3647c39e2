"""Children of well-known architectures with random weights: does every operator reach a divergence of 1%?

    python -m benchmarks.random_networks                     # all networks, one process each
    python -m benchmarks.random_networks --only resnet50
    python -m benchmarks.random_networks --heads             # MobileNetV2 with 10 and with 1,000 outputs

Two random inputs are the experience. Each network has a process of its own, whose largest memory is recorded. Rows
are appended to `architectures.csv` in --out; what is there already is not measured again, and `architectures.md`
has them as a table. The GPT-2 backbone needs `pip install keras-hub`. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import environment
from benchmarks.real_networks import append_rows, read_rows

OPERATORS: Final = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-rms", "sm-g-so")
DIVERGENCE: Final = "1%"
INPUTS: Final = 2
COLUMNS: Final = (
    *("network", "input", "weights", "outputs", "operator", "divergence"),
    *("reached", "finite", "seconds", "peak_mib", "warning"),
)
HEAD_COLUMNS: Final = ("network", "outputs", "images", "operator", "first_seconds", "cpu_seconds")
HEAD_IMAGES: Final = 8
HEAD_REPEATS: Final = 2
PIXELS: Final = 64


# --- Networks


def build_application(name: str, outputs: int = 10) -> Any:
    """Return a network of `keras.applications` with random weights, for images of 64 pixels."""
    import keras

    build = getattr(keras.applications, name)
    return build(weights=None, classes=outputs, input_shape=(PIXELS, PIXELS, 3))


def build_vit() -> Any:
    """Return a small vision transformer: patches of 8 pixels, four blocks."""
    import keras

    kl = keras.layers
    image = keras.Input((PIXELS, PIXELS, 3))
    x = kl.Reshape((-1, 128))(kl.Conv2D(128, 8, strides=8)(image))
    x = kl.EinsumDense("bpd,de->bpe", (x.shape[1], 128), bias_axes="pe")(x)  # the bias tells positions apart
    for _ in range(4):
        normalized = kl.LayerNormalization()(x)
        x = kl.Add()([x, kl.MultiHeadAttention(4, 32)(normalized, normalized)])
        x = kl.Add()([x, kl.Dense(128)(kl.Dense(512, "gelu")(kl.LayerNormalization()(x)))])
    x = kl.GlobalAveragePooling1D()(kl.LayerNormalization()(x))
    return keras.Model(image, kl.Dense(10, "softmax")(x), name="vit")


def build_unet() -> Any:
    """Return a UNet with three levels, whose output is one probability per pixel."""
    import keras

    kl = keras.layers

    def convolve(x: Any, maps: int) -> Any:
        for _ in range(2):
            x = kl.Activation("relu")(kl.BatchNormalization()(kl.Conv2D(maps, 3, padding="same")(x)))
        return x

    image = keras.Input((PIXELS, PIXELS, 3))
    fine = convolve(image, 32)
    middle = convolve(kl.MaxPooling2D()(fine), 64)
    coarse = convolve(kl.MaxPooling2D()(middle), 128)
    middle = convolve(kl.Concatenate()([kl.Conv2DTranspose(64, 2, strides=2)(coarse), middle]), 64)
    fine = convolve(kl.Concatenate()([kl.Conv2DTranspose(32, 2, strides=2)(middle), fine]), 32)
    return keras.Model(image, kl.Conv2D(1, 1, activation="sigmoid")(fine), name="unet")


def build_convlstm() -> Any:
    """Return three ConvLSTM layers with batch normalization, for films of six frames of 32 pixels."""
    import keras

    kl = keras.layers
    layers = []
    for i, maps in enumerate((16, 32, 32)):
        layers += [kl.ConvLSTM2D(maps, 3, strides=2, padding="same", return_sequences=i < 2), kl.BatchNormalization()]
    film = keras.Input((6, 32, 32, 1))
    return keras.Sequential([film, *layers, kl.Flatten(), kl.Dense(10, "softmax")], name="convlstm")


def build_gpt2() -> Any:
    """Return a GPT-2 backbone of keras-hub in a small configuration: four blocks of width 128, 1,000 words."""
    from keras_hub.models import GPT2Backbone

    return GPT2Backbone(
        vocabulary_size=1_000,
        num_layers=4,
        num_heads=4,
        hidden_dim=128,
        intermediate_dim=512,
        max_sequence_length=32,
    )


NETWORKS: Final[dict[str, Callable[[], Any]]] = {
    "resnet50": lambda: build_application("ResNet50"),
    "mobilenetv2": lambda: build_application("MobileNetV2"),
    "mobilenetv2-1000": lambda: build_application("MobileNetV2", 1_000),
    "efficientnetb0": lambda: build_application("EfficientNetB0"),
    "densenet121": lambda: build_application("DenseNet121"),
    "convnexttiny": lambda: build_application("ConvNeXtTiny"),
    "vit": build_vit,
    "unet": build_unet,
    "convlstm": build_convlstm,
    "gpt2": build_gpt2,
}


def make_experience(model: Any, count: int = INPUTS) -> Any:
    """Return random inputs: pixels of a common range, or words."""
    random = np.random.default_rng(0)
    if len(model.inputs) > 1:
        words = random.integers(0, 1_000, (count, 32)).astype(np.int32)
        return {"token_ids": words, "padding_mask": np.ones_like(words)}
    return random.uniform(0.0, 1.0, (count, *model.inputs[0].shape[1:])).astype(np.float32)


# --- Measurement


def measure(name: str, out: Path) -> None:
    """Measure the missing operators of one network in this process."""
    import keras

    import tfsm

    file = out / "architectures.csv"
    done = {row["operator"] for row in read_rows(file) if row["network"] == name}
    missing = [operator for operator in OPERATORS if operator not in done]
    if not missing:
        return
    keras.utils.set_random_seed(0)
    model = NETWORKS[name]()
    seen = make_experience(model)
    before = call(model, seen)
    reference, kind = float(before.var(axis=0).sum()), ""
    square = float(np.square(before).sum(axis=-1).mean())
    if reference <= 1e-10 * square:  # constant up to rounding, for which a percentage is one of the mean square
        reference, kind = square, " of the mean square"
    target = reference * float(DIVERGENCE.removesuffix("%")) / 100
    shapes = "tokens 32" if isinstance(seen, dict) else "x".join(map(str, seen.shape[1:]))
    for operator in missing:
        began = time.monotonic()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            child = tfsm.mutate(model, seen, operator, divergence=DIVERGENCE, seed=1)
        seconds = time.monotonic() - began
        after = call(child, seen)
        moved = float(np.square(after - before).sum(axis=-1).mean())
        said = "; ".join(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)))
        row = {
            "network": name,
            "input": shapes,
            "weights": sum(int(np.prod(v.shape)) for v in model.trainable_variables),
            "outputs": before.shape[-1],
            "operator": operator,
            "divergence": DIVERGENCE + kind,
            "reached": moved / target,
            "finite": bool(np.isfinite(after).all()),
            "seconds": round(seconds, 1),
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "warning": said,
        }
        append_rows(file, [[row[key] for key in COLUMNS]], COLUMNS)
        print(f"{name} {operator}: {row['reached']:.3f} of the divergence, {seconds:.1f} s", flush=True)


def call(model: Any, seen: Any) -> np.ndarray:
    """Return the output rows `[I, K]` by Keras itself, in double precision."""
    outputs = np.asarray(model(seen, training=False), np.float64)
    return outputs.reshape(-1, outputs.shape[-1])


def measure_heads(out: Path) -> None:
    """Measure children of MobileNetV2 with 10 and with 1,000 outputs through `tfsm.functional`, after compiling."""
    import keras

    import tfsm

    rows = []
    for outputs in (10, 1_000):
        keras.utils.set_random_seed(0)
        model = build_application("MobileNetV2", outputs)
        seen, genome = make_experience(model, HEAD_IMAGES), tfsm.flatten(model)
        began = time.process_time()
        tfsm.functional.mutate(model, genome, seen, "sm-g-sum", divergence=DIVERGENCE, seed=0)
        first, began = time.process_time() - began, time.process_time()
        for seed in range(HEAD_REPEATS):
            tfsm.functional.mutate(model, genome, seen, "sm-g-sum", divergence=DIVERGENCE, seed=1 + seed)
        seconds = (time.process_time() - began) / HEAD_REPEATS
        rows.append(["mobilenetv2", outputs, HEAD_IMAGES, "sm-g-sum", round(first, 2), round(seconds, 2)])
        print(f"mobilenetv2, {outputs:,} outputs: {seconds:.2f} CPU seconds per child, {first:.1f} for the first one")
    (out / "heads.csv").unlink(missing_ok=True)
    append_rows(out / "heads.csv", rows, HEAD_COLUMNS)


def summarize(rows: Sequence[dict[str, str]], heads: Sequence[dict[str, str]]) -> list[str]:
    """Return Markdown: one line per network, with the divergence that each operator reached relative to the target."""
    names = " | ".join(f"`{operator}`" for operator in OPERATORS)
    lines = [
        f"| network | input | weights | outputs | divergence | {names} | peak memory |",
        "|---|---|---:|---:|" + "---|" * (len(OPERATORS) + 2),
    ]
    for name in dict.fromkeys(row["network"] for row in rows):
        own = {row["operator"]: row for row in rows if row["network"] == name}
        first = next(iter(own.values()))
        cells = [name, first["input"], f"{int(first['weights']):,}", f"{int(first['outputs']):,}"]
        cells.append(first["divergence"])
        cells += [describe(own[o]) if o in own else "" for o in OPERATORS]
        cells.append(f"{max(int(row['peak_mib']) for row in own.values()) / 1024:.1f} GiB")
        lines.append(f"| {' | '.join(cells)} |")
    if heads:
        lines += ["", "| outputs | images | CPU seconds per child of `sm-g-sum` | first call |", "|---:|---:|---|---|"]
        lines += [
            f"| {int(r['outputs']):,} | {r['images']} | {r['cpu_seconds']} | {r['first_seconds']} |" for r in heads
        ]
    return lines


def describe(row: dict[str, str]) -> str:
    """Return the share of the divergence that was reached, and whether outputs are not finite or a warning says why."""
    text = f"{float(row['reached']):.3f}"
    return f"{text}{'' if row['finite'] == 'True' else ', not finite'}{' (warned)' if row['warning'] else ''}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=Path("results/real-networks"), help="folder of the table")
    parser.add_argument("--only", default="", help="some of the networks, separated by commas")
    parser.add_argument("--heads", action="store_true", help="compare heads of MobileNetV2")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    environment.use_one_core()
    names = [name for name in options.only.split(",") if name] or list(NETWORKS)
    if options.heads:
        measure_heads(options.out)
    elif options.worker:
        measure(names[0], options.out)
        return
    else:
        for name in names:
            command = [sys.executable, "-m", "benchmarks.random_networks", "--worker", "--only", name]
            subprocess.run([*command, "--out", str(options.out)], check=False)
    rows, heads = read_rows(options.out / "architectures.csv"), read_rows(options.out / "heads.csv")
    if rows:
        text = "\n".join(summarize(rows, heads)) + "\n"
        (options.out / "architectures.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
