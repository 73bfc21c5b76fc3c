"""docs/programming.md says what the declarations say."""

import pytest

from bertha.cli import main
from bertha.folders import CHECKOUT
from bertha.rtl.document import refreshed
from bertha.rtl.isa import COMMANDS
from bertha.rtl.registers import REGISTERS


def test_document_is_up_to_date():
    text = (CHECKOUT / "docs" / "programming.md").read_text()
    assert refreshed(text) == text, "run: bertha document"


def test_document_names_everything():
    text = (CHECKOUT / "docs" / "programming.md").read_text()
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
