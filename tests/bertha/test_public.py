"""What notebooks import."""

import importlib

import pytest

import bertha


@pytest.mark.parametrize("name", bertha.__all__)
def test_every_name_is_there(name):
    assert callable(getattr(bertha, name)) or name == "PRESETS"
    assert name in dir(bertha)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'bertha' has no attribute 'compile_everything'"):
        _ = bertha.compile_everything


def test_importing_bertha_imports_none_of_it():
    command = "import bertha, sys; print([name for name in sys.modules if name.startswith('bertha.')])"
    import subprocess
    import sys

    assert subprocess.check_output([sys.executable, "-c", command], text=True) == "[]\n"
    assert importlib.import_module("bertha") is bertha
