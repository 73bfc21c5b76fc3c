"""What users say of hard attention."""

import pytest

from bertha.errors import UserError
from bertha.models.hard_attention import parse_hard_attention


@pytest.mark.parametrize(
    ("text", "keys"), [("30", (30, 30, 30, 30)), ("0-2:7", (7, 7, 7, 0)), ("3:1, 0-1:128", (128, 128, 0, 1))]
)
def test_layers_and_keys(text, keys):
    assert parse_hard_attention(text, layers=4, tokens=128).keys == keys


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0", "keys of hard attention must be from 1 to the 128 tokens of a run, not 0"),
        ("129", "keys of hard attention must be from 1 to the 128 tokens of a run, not 129"),
        ("4:3", "layers of --hard-attention must be from 0 to 3, not '4:3'"),
        ("2-1:3", "layers of --hard-attention must be from 0 to 3, not '2-1:3'"),
        ("0-2:3,1:4", "--hard-attention must name a layer once, not twice as in '0-2:3,1:4'"),
        ("x", "--hard-attention must be a number of keys, or layers and keys such as 0-2:30,5:7, not 'x'"),
        ("", "--hard-attention must be a number of keys"),
        ("-3", "--hard-attention must be a number of keys"),
    ],
)
def test_refusals(text, sentence):
    with pytest.raises(UserError) as error:
        parse_hard_attention(text, layers=4, tokens=128)
    assert sentence in str(error.value)
