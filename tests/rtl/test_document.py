"""docs/programming.md says what the declarations say."""

import pytest

from rtl.__main__ import PROGRAMMING, main
from rtl.document import refreshed
from rtl.isa import COMMANDS
from rtl.registers import REGISTERS


def test_document_is_up_to_date():
    text = PROGRAMMING.read_text()
    assert refreshed(text) == text, "run: python -m rtl document"


def test_document_names_everything():
    text = PROGRAMMING.read_text()
    for register in REGISTERS:
        assert f"`{register.name}`" in text
    for opcode, fields in COMMANDS.items():
        assert f"`{opcode.name}`" in text
        for field in fields:
            assert f"`{field.name}`" in text


def test_a_document_without_the_part_is_refused():
    with pytest.raises(ValueError, match="the document must hold the lines"):
        refreshed("nothing")


def test_unknown_preset_is_one_sentence(capsys):
    assert main(["verilog", "--preset", "huge"]) == 2
    assert capsys.readouterr().err == (
        "error: preset must be one of tiny4, edge8, edge16, server32, not 'huge'\n"
    )
