"""Makes the generated part of docs/programming.md anew."""

from bertha.errors import UserError
from bertha.folders import CHECKOUT
from bertha.rtl.document import refreshed


def add_arguments(parser) -> None:
    pass


def run(options) -> int:
    if CHECKOUT is None:
        raise UserError("the documents are part of a checkout, and this is an installed package")
    path = CHECKOUT / "docs" / "programming.md"
    path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")
    print(path)
    return 0
