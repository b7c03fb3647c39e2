from __future__ import annotations

import dataclasses
import pickle

import pytest

from tests.contracts.parts import entries, part
from tfsm.contracts import Domain, Mutation, Selection
from tfsm.options import describe
from tfsm.registry import KINDS, Entry

EVERY = [pytest.param(entry, id=f"{kind} {entry.name}") for kind in KINDS for entry in entries(kind)]
WITH_PROTOCOL = [case for case in EVERY if case.values[0].kind != "observer"]
PROTOCOLS = {"mutation": Mutation, "domain": Domain, "selection": Selection}
"""An observer has some methods or others; `test_observers.py` looks at these."""


@pytest.mark.parametrize("entry", EVERY)
def test_the_registered_options_are_the_class_fields_and_defaults(entry: Entry) -> None:
    # A domain that has an option called `network`, as its method is, holds its options apart.
    own = getattr(part(entry), "options", part(entry))
    fields = {field.name: getattr(own, field.name) for field in dataclasses.fields(own) if field.init}
    registered = {option.name: option.default for option in describe(entry.options)} if entry.options else {}
    assert registered == fields


@pytest.mark.parametrize("entry", EVERY)
def test_every_option_and_every_part_is_described(entry: Entry) -> None:
    assert entry.description
    assert all(option.help for option in (describe(entry.options) if entry.options else ()))
    assert entry.load().__doc__


@pytest.mark.parametrize("entry", EVERY)
def test_a_part_is_a_frozen_dataclass_that_pickles_compares_and_hashes(entry: Entry) -> None:
    built = part(entry)
    assert dataclasses.is_dataclass(built)
    with pytest.raises(dataclasses.FrozenInstanceError):
        built.anything = 1
    again = pickle.loads(pickle.dumps(built))
    assert again == built
    assert hash(again) == hash(built)


@pytest.mark.parametrize("entry", WITH_PROTOCOL)
def test_a_part_keeps_its_contract(entry: Entry) -> None:
    assert isinstance(part(entry), PROTOCOLS[entry.kind])
