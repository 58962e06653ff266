"""The public surface: what is exported exists, is documented, and is complete."""

import importlib
import inspect

import pytest

PACKAGES = [
    "streambayes",
    "streambayes.families",
    "streambayes.models",
    "streambayes.forgetting",
    "streambayes.learning",
    "streambayes.drift",
    "streambayes.metrics",
    "streambayes.dashboard",
    "streambayes.reports",
    "streambayes.sources",
    "streambayes.checkpoint",
    "streambayes.testing",
]


@pytest.mark.parametrize("name", PACKAGES)
def test_exports_exist_and_are_sorted(name):
    package = importlib.import_module(name)
    exported = package.__all__
    assert len(set(exported)) == len(exported)
    for entry in exported:
        assert hasattr(package, entry), f"{name}.{entry}"


@pytest.mark.parametrize("name", PACKAGES)
def test_public_objects_have_docstrings(name):
    package = importlib.import_module(name)
    assert package.__doc__
    for entry in package.__all__:
        value = getattr(package, entry)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        assert value.__doc__, f"{name}.{entry} has no docstring"
        if not inspect.isclass(value):
            continue
        for attribute, member in vars(value).items():
            if attribute.startswith("_") or not inspect.isfunction(member):
                continue
            documented = any(
                getattr(vars(base).get(attribute), "__doc__", None) for base in value.__mro__
            )
            assert documented, f"{name}.{entry}.{attribute} has no docstring"


def test_package_is_typed():
    import streambayes

    assert (importlib.resources.files(streambayes) / "py.typed").is_file()
