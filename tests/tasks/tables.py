"""Small tables for tests."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from desktop.state import Edit
from desktop.tasks import reading
from desktop.tasks.builtin import TASKS
from desktop.tasks.reading import Reading
from desktop.tasks.spec import TaskSpec
from tests.tasks.folders import finish

TABLE = TASKS["table"]


def read(path: Path, *steps: Edit, spec: TaskSpec = TABLE) -> Reading:
    """What the window would get for this file, each edit a step of its own."""
    return finish(reading.read(spec, (path,), tuple((step,) for step in steps)))


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def pets(rows: int = 40, separator: str = ",", decimal: str = ".", seed: int = 1) -> str:
    """A table of cats and dogs: `kind`, `weight` (the dogs are heavier), `colour`."""
    draw = random.Random(seed)
    lines = [separator.join(("weight", "colour", "kind"))]
    for row in range(rows):
        weight = f"{draw.gauss(4 if row % 2 else 20, 1):.2f}".replace(".", decimal)
        lines.append(separator.join((weight, draw.choice(("black", "white")), "cat" if row % 2 else "dog")))
    return "\n".join(lines) + "\n"


def xlsx(path: Path, sheets: dict[str, Sequence[Sequence[str | float]]]) -> Path:
    """A workbook as small as one can be (ECMA-376)."""
    types = "".join(f'<Override PartName="/xl/worksheets/sheet{i}.xml" ContentType="application/vnd.openxmlformats-'
                    'officedocument.spreadsheetml.worksheet+xml"/>' for i in range(1, len(sheets) + 1))
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    related = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("[Content_Types].xml", f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
                      'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName='
                      '"/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.'
                      f'sheet.main+xml"/>{types}</Types>')
        book.writestr("_rels/.rels", f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
                      f'Type="{related}/officeDocument" Target="xl/workbook.xml"/></Relationships>')
        names = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, name in enumerate(sheets, 1))
        book.writestr("xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{related}"><sheets>{names}</sheets>'
                                         '</workbook>')
        book.writestr("xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{package}/relationships">' + "".join(
            f'<Relationship Id="r{i}" Type="{related}/worksheet" Target="worksheets/sheet{i}.xml"/>'
            for i in range(1, len(sheets) + 1)) + "</Relationships>")
        for i, rows in enumerate(sheets.values(), 1):
            cells = "".join("<row>" + "".join(
                f"<c><v>{cell}</v></c>" if isinstance(cell, int | float) else
                f'<c t="inlineStr"><is><t>{escape(cell)}</t></is></c>' for cell in row) + "</row>" for row in rows)
            book.writestr(f"xl/worksheets/sheet{i}.xml",
                          f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>')
    return path
