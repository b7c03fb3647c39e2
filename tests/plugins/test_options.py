"""Options are described and validated."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Interval, Le, Lt, MinLen, MultipleOf
from typing_extensions import Doc

from tfsm.errors import TfsmError
from tfsm.plugins.options import Option, describe, validate


@dataclass(frozen=True, kw_only=True)
class Base:
    size: Annotated[int, Ge(1), Le(9), Doc("how many")] = 5


@dataclass(frozen=True, kw_only=True)
class Options(Base):
    floor: Annotated[float, Gt(0), Doc("the least")] = 0.01
    limit: Annotated[float | None, Gt(0), Doc("the most; none: no limit")] = None
    inner: Annotated[Annotated[float, Gt(0)] | None, Doc("constrained inside")] = None
    share: Annotated[float, Interval(gt=0, lt=1)] = 0.5
    even: Annotated[int, MultipleOf(2)] = 2
    flag: Annotated[bool, Doc("whether")] = False
    removal: Annotated[Literal["fresh", "same"], Doc("who")] = "fresh"
    outputs: Annotated[Literal[1, 2], Doc("how wide")] = 2
    label: str | None = None
    file: Path = Path("a")
    layers: Annotated[tuple[int, ...], MinLen(1)] = field(default_factory=lambda: (20, 20))
    required: int
    computed: int = field(init=False, default=0)


DESCRIBED = {option.name: option for option in describe(Options)}


def accepted(**values: object) -> dict[str, object]:
    return validate(Options, values, where="--set")


def validation_error(**values: object) -> str:
    with pytest.raises(TfsmError) as caught:
        accepted(**values)
    return str(caught.value)


def test_an_option_is_described_in_full() -> None:
    assert describe(Base) == (Option(name="size", type="int", default=5, help="how many", constraints=">= 1 and <= 9"),)


def test_fields_come_in_order_with_inherited_ones_first_and_without_those_that_cannot_be_set() -> None:
    assert list(DESCRIBED)[:2] == ["size", "floor"]
    assert "computed" not in DESCRIBED


@pytest.mark.parametrize(
    ("name", "type_", "constraints"),
    [
        ("floor", "float", "> 0"),
        ("limit", "float or none", "> 0"),
        ("inner", "float or none", "> 0"),
        ("share", "float", "> 0 and < 1"),
        ("even", "int", "divisible by 2"),
        ("flag", "yes|no", ""),
        ("removal", "fresh|same", ""),
        ("outputs", "1|2", ""),
        ("label", "str or none", ""),
        ("file", "path", ""),
        ("layers", "list of int", "of length >= 1"),
    ],
)
def test_types_and_constraints_are_readable(name: str, type_: str, constraints: str) -> None:
    assert (DESCRIBED[name].type, DESCRIBED[name].constraints) == (type_, constraints)


def test_defaults_are_values_and_a_missing_one_makes_the_option_required() -> None:
    assert DESCRIBED["layers"].default == (20, 20)
    assert DESCRIBED["limit"].default is None
    assert DESCRIBED["required"].default is MISSING
    assert [option.name for option in describe(Options) if option.required] == ["required"]


def test_only_given_options_are_returned() -> None:
    assert accepted() == {}
    assert accepted(size=3) == {"size": 3}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("size", "5", 5),
        ("floor", "1e-3", 0.001),
        ("limit", "none", None),
        ("limit", "None", None),
        ("limit", "2", 2.0),
        ("flag", "true", True),
        ("flag", "no", False),
        ("removal", "same", "same"),
        ("outputs", "1", 1),
        ("label", "5", "5"),
        ("label", "", ""),
        ("file", "b/c", Path("b/c")),
        ("layers", "1,2,3", (1, 2, 3)),
        ("layers", "[4, 5]", (4, 5)),
        ("layers", "6", (6,)),
    ],
)
def test_text_is_read_leniently(name: str, text: str, value: object) -> None:
    result = accepted(**{name: text})[name]
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [("size", 5, 5), ("floor", 1, 1.0), ("flag", True, True), ("outputs", 2, 2), ("layers", [1, 2], (1, 2))],
)
def test_typed_values_keep_their_type_and_a_whole_number_is_a_number(name: str, given: object, value: object) -> None:
    result = accepted(**{name: given})[name]
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("floor", "-1", "--set floor=-1: expected a number > 0"),
        ("floor", 0, "--set floor=0: expected a number > 0"),
        ("floor", True, "--set floor=true: expected a number > 0"),
        ("floor", "abc", "--set floor=abc: expected a number > 0"),
        ("floor", None, "--set floor=null: expected a number > 0"),
        ("limit", -1, "--set limit=-1: expected a number > 0 or none"),
        ("inner", -1, "--set inner=-1: expected a number > 0 or none"),
        ("share", 1, "--set share=1: expected a number > 0 and < 1"),
        ("size", 10, "--set size=10: expected an integer >= 1 and <= 9"),
        ("size", True, "--set size=true: expected an integer >= 1 and <= 9"),
        ("size", 5.5, "--set size=5.5: expected an integer >= 1 and <= 9"),
        ("size", "true", "--set size=true: expected an integer >= 1 and <= 9"),
        ("size", "", "--set size=: expected an integer >= 1 and <= 9"),
        ("even", 3, "--set even=3: expected an integer divisible by 2"),
        ("flag", 1, "--set flag=1: expected yes or no"),
        ("flag", "maybe", "--set flag=maybe: expected yes or no"),
        ("removal", "sam", "--set removal=sam: expected fresh or same"),
        ("outputs", True, "--set outputs=true: expected 1 or 2"),
        ("outputs", "3", "--set outputs=3: expected 1 or 2"),
        ("label", 5, "--set label=5: expected text or none"),
        ("layers", "1,x", "--set layers=1,x: expected a list of int of length >= 1"),
        ("layers", [True], "--set layers=[true]: expected a list of int of length >= 1"),
        ("layers", [], "--set layers=[]: expected a list of int of length >= 1"),
    ],
)
def test_an_invalid_value_is_reported_with_the_expected_one(name: str, given: object, complaint: str) -> None:
    assert validation_error(**{name: given}) == complaint


@pytest.mark.parametrize("given", [float("nan"), float("inf"), float("-inf"), "nan", "inf", "-Infinity"])
def test_values_that_are_not_finite_are_rejected(given: object) -> None:
    assert validation_error(floor=given).endswith(": expected a finite number > 0")


def test_an_unknown_option_is_rejected_with_the_nearest_name() -> None:
    assert validation_error(flor=1) == "--set flor: no such option, did you mean 'floor'?"


def test_an_option_of_a_part_without_any_is_rejected() -> None:
    @dataclass
    class Nothing:
        pass

    with pytest.raises(TfsmError, match="--set floor: no such option; it has no options"):
        validate(Nothing, {"floor": 1}, where="--set")


def test_all_problems_are_reported_at_once_one_per_line_with_its_source() -> None:
    with pytest.raises(TfsmError) as caught:
        validate(Options, {"size": 0, "label": "x", "flag": 3}, where=lambda name: f"tfsm.toml, [{name}]:")
    assert str(caught.value).splitlines() == [
        "tfsm.toml, [size]: size=0: expected an integer >= 1 and <= 9",
        "tfsm.toml, [flag]: flag=3: expected yes or no",
    ]


def test_a_type_that_cannot_be_checked_is_reported_without_a_traceback() -> None:
    with pytest.raises(TfsmError, match="an option of type 'opaque or none' cannot be set"):
        validate(Unsettable, {"thing": "x"}, where="--set")


class Opaque:
    pass


@dataclass
class Unsettable:
    thing: Opaque | None = None
    bound: Annotated[int, Lt(3)] = 1
