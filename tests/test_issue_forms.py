"""The issue forms follow the rules of GitHub, which shows no form at all if one of them is broken.

https://docs.github.com/en/communities/using-templates-to-encourage-useful-issues-and-pull-requests/syntax-for-issue-forms
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.docs.markdown import ROOT

FOLDER = ROOT / ".github" / "ISSUE_TEMPLATE"
FORMS = sorted(file for file in FOLDER.glob("*.yml") if file.name != "config.yml")

KEYS: dict[str, tuple[type, ...]] = {"name": (str,), "description": (str,), "body": (list,), "title": (str,)}
KEYS |= {"type": (str,), "labels": (list, str), "assignees": (list, str), "projects": (list, str)}
REQUIRED = {"name", "description", "body"}

TEXT: dict[str, type] = {"label": str, "description": str, "placeholder": str, "value": str}
ATTRIBUTES: dict[str, dict[str, type]] = {
    "markdown": {"value": str},
    "textarea": {**TEXT, "render": str},
    "input": TEXT,
    "dropdown": {"label": str, "description": str, "multiple": bool, "options": list, "default": int},
    "checkboxes": {"label": str, "description": str, "options": list},
}
NEEDED = {"markdown": {"value"}, "dropdown": {"label", "options"}, "checkboxes": {"label", "options"}}


def find_faults(form: Any) -> list[str]:
    """Return what is wrong with an issue form."""
    if not isinstance(form, dict):
        return ["it is no mapping"]
    faults = [f"unknown key {key}" for key in form.keys() - KEYS.keys()]
    faults += [f"{key} is missing" for key in REQUIRED - form.keys()]
    faults += [
        f"{key} has the wrong type" for key, value in form.items() if key in KEYS and not isinstance(value, KEYS[key])
    ]
    faults += [f"{key} is empty" for key in REQUIRED & form.keys() if not form[key]]
    if faults:
        return faults
    fields = [element for element in form["body"] if isinstance(element, dict) and element.get("type") != "markdown"]
    if not fields:
        faults.append("body has nothing to fill in")
    for number, element in enumerate(form["body"]):
        faults += [f"element {number}: {fault}" for fault in find_element_faults(element)]
    for what, values in {
        "ids": [element["id"] for element in fields if "id" in element],
        "labels": [element.get("attributes", {}).get("label") for element in fields],
    }.items():
        if len(set(values)) < len(values):
            faults.append(f"{what} are not unique")
    return faults


def find_element_faults(element: Any) -> list[str]:
    """Return what is wrong with an element of the body."""
    if not isinstance(element, dict) or element.get("type") not in ATTRIBUTES:
        return ["unknown type"]
    kind, attributes = element["type"], element.get("attributes")
    known = {"type", "attributes"} | (set() if kind == "markdown" else {"id", "validations"})
    faults = [f"unknown key {key}" for key in element.keys() - known]
    if not isinstance(attributes, dict):
        return [*faults, "attributes are missing"]
    allowed = ATTRIBUTES[kind]
    faults += [f"unknown attribute {key}" for key in attributes.keys() - allowed.keys()]
    faults += [f"{key} is missing or empty" for key in NEEDED.get(kind, {"label"}) if not attributes.get(key)]
    # A bool is an int in Python, and `yes` is a bool in YAML.
    faults += [
        f"{key} has the wrong type"
        for key, value in attributes.items()
        if key in allowed and type(value) is not allowed[key]
    ]
    if not re.fullmatch(r"[\w-]+", str(element.get("id", "x")), re.ASCII) or not isinstance(
        element.get("id", "x"), str
    ):
        faults.append("the id may have letters, digits, - and _ only")
    validations = element.get("validations", {})
    if not isinstance(validations, dict) or validations.keys() - {"required"}:
        faults.append("validations may have required only")
    elif not isinstance(validations.get("required", True), bool):
        faults.append("required is no bool")
    options = attributes.get("options")
    if isinstance(options, list):
        faults += find_option_faults(kind, options)
    return faults


def find_option_faults(kind: str, options: list[Any]) -> list[str]:
    """Return what is wrong with the options of a dropdown or of checkboxes."""
    if kind == "checkboxes":
        if not all(isinstance(one, dict) and one.keys() <= {"label", "required"} for one in options):
            return ["a checkbox has a label, and may be required"]
        options = [one.get("label") for one in options]
    if not all(isinstance(one, str) and one for one in options):
        return ["options must be text; quote yes and no"]
    faults = ["options are not unique"] if len(set(options)) < len(options) else []
    return [*faults, *(["None is a reserved option"] if kind == "dropdown" and "None" in options else [])]


def load(file: Any) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.name)
def test_issue_forms_follow_the_rules(file: Any) -> None:
    assert find_faults(load(file)) == []


def test_names_of_forms_are_unique() -> None:
    names = [load(file)["name"] for file in FORMS]
    assert len(names) > 1
    assert len(set(names)) == len(names)


def test_the_configuration_of_the_chooser_follows_the_rules() -> None:
    config = load(FOLDER / "config.yml")
    assert isinstance(config.pop("blank_issues_enabled"), bool)
    links = config.pop("contact_links", [])
    assert all(link.keys() == {"name", "url", "about"} for link in links)
    assert config == {}


FORM: dict[str, Any] = {
    "name": "A",
    "description": "B",
    "body": [
        {"type": "markdown", "attributes": {"value": "text"}},
        {"type": "input", "id": "one", "attributes": {"label": "One"}, "validations": {"required": True}},
        {"type": "dropdown", "id": "two", "attributes": {"label": "Two", "options": ["yes", "no"]}},
        {"type": "checkboxes", "attributes": {"label": "Three", "options": [{"label": "x", "required": True}]}},
    ],
}


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda form: form.pop("description"), "description is missing"),
        (lambda form: form.update(about="x"), "unknown key about"),
        (lambda form: form.update(name=""), "name is empty"),
        (lambda form: form.update(body={}), "body has the wrong type"),
        (lambda form: form.update(body=form["body"][:1]), "body has nothing to fill in"),
        (lambda form: form["body"][1].update(type="text"), "element 1: unknown type"),
        (lambda form: form["body"][1].update(id="o ne"), "element 1: the id may have letters"),
        (lambda form: form["body"][1].update(id="two"), "ids are not unique"),
        (lambda form: form["body"][1]["attributes"].update(label="Two"), "labels are not unique"),
        (lambda form: form["body"][1]["attributes"].pop("label"), "element 1: label is missing"),
        (lambda form: form["body"][1]["attributes"].update(render="text"), "element 1: unknown attribute render"),
        (lambda form: form["body"][1]["validations"].update(required="yes"), "element 1: required is no bool"),
        (lambda form: form["body"][1].update(validations={"min": 1}), "element 1: validations may have required only"),
        (lambda form: form["body"][0].update(id="text"), "element 0: unknown key id"),
        (lambda form: form["body"][2]["attributes"].update(options=[True, False]), "element 2: options must be text"),
        (lambda form: form["body"][2]["attributes"].update(options=["a", "a"]), "element 2: options are not unique"),
        (lambda form: form["body"][2]["attributes"].update(options=["None"]), "element 2: None is a reserved option"),
        (lambda form: form["body"][2]["attributes"].update(options=[]), "element 2: options is missing or empty"),
        (lambda form: form["body"][3]["attributes"].update(options=["x"]), "element 3: a checkbox has a label"),
    ],
)
def test_a_broken_form_is_found(damage: Callable[[dict[str, Any]], Any], fault: str) -> None:
    form = copy.deepcopy(FORM)
    assert find_faults(form) == []
    damage(form)
    faults = find_faults(form)
    assert [found for found in faults if found.startswith(fault)], faults
