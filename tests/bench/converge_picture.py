"""A picture of what `converge` found: for each local steps and skew the curves of accuracy, with the table beneath."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from tests.bench.converge import Outcome

WIDTH, PANEL, HIGH, GAP, LINE = 1480, 340, 190, 24, 19
COLOURS = {"f32": "#137a63", "f16": "#4b4fc4", "int8": "#c2571a"}
INK, QUIET, RULE = "#1f2421", "#6b716d", "#dfe3de"
AIM = 0.95
FONT, BOLD = ImageFont.load_default(13), ImageFont.load_default(15)


def draw(rows: list[dict[str, Any]], outcomes: list[Outcome], path: Path) -> None:
    """Writes the PNG. Curves are those of the first seed; full lines without, thin ones with the outer optimiser."""
    steps = sorted({row["steps"] for row in rows})
    kinds = sorted({row["skewed"] for row in rows})
    table = table_lines(rows, steps)
    height = 70 + len(kinds) * (HIGH + 52) + (len(table) + 2) * LINE + 2 * GAP
    picture = Image.new("RGB", (WIDTH, height), "#ffffff")
    pen = ImageDraw.Draw(picture)
    pen.text((GAP, 14), "Accuracy on held-out digits by round, 4 members", fill=INK, font=BOLD)
    for place, (name, colour) in enumerate(COLOURS.items()):
        pen.line((GAP + 380 + 110 * place, 23, GAP + 405 + 110 * place, 23), fill=colour, width=3)
        pen.text((GAP + 412 + 110 * place, 15), name, fill=INK, font=FONT)
    pen.text((GAP + 720, 15), "thick: members' mean; thin: outer optimiser (Nesterov)", fill=QUIET, font=FONT)
    for down, skewed in enumerate(kinds):
        for across, number in enumerate(steps):
            these = [each for each in outcomes if each.setting.steps == number and each.setting.skewed == skewed]
            title = f"H = {number}, {'skewed' if skewed else 'equal'} data"
            panel(pen, GAP + across * (PANEL + 20), 70 + down * (HIGH + 52), title, these)
    top = 70 + len(kinds) * (HIGH + 52) + GAP
    for number, line in enumerate(table):
        for x, text in zip((GAP, 140, 270, 400, *range(560, 560 + 220 * len(steps), 220)), line, strict=False):
            pen.text((x, top + number * LINE), text, fill=INK if number else QUIET, font=FONT)
        if not number:
            pen.line((GAP, top + LINE - 2, WIDTH - GAP, top + LINE - 2), fill=RULE)
    picture.save(path)


def panel(pen: ImageDraw.ImageDraw, left: float, top: float, title: str, outcomes: list[Outcome]) -> None:
    """One chart: accuracy 0..1 over rounds."""
    first = min((each.setting.seed for each in outcomes), default=0)
    shown = [each for each in outcomes if each.setting.seed == first]
    longest = max((len(each.curve) for each in shown), default=1)
    wide = PANEL - 40

    def at(round_: int, accuracy: float) -> tuple[float, float]:
        return left + 32 + wide * round_ / longest, top + 20 + (HIGH - 40) * (1 - accuracy)

    pen.text((left, top - 4), title, fill=INK, font=BOLD)
    for accuracy in (0.0, 0.5, AIM):
        pen.line((*at(0, accuracy), *at(longest, accuracy)), fill=QUIET if accuracy == AIM else RULE)
        pen.text((left, at(0, accuracy)[1] - 8), f"{accuracy:.2f}", fill=QUIET, font=FONT)
    pen.text((at(longest, 0)[0] - 8 * len(str(longest)), top + HIGH - 16), str(longest), fill=QUIET, font=FONT)
    for each in shown:
        points = [at(0, 0.1), *(at(number, accuracy) for number, accuracy in enumerate(each.curve, start=1))]
        pen.line(points, fill=COLOURS[each.setting.precision], width=3 if each.setting.outer == "none" else 1)


def table_lines(rows: list[dict[str, Any]], steps: list[int]) -> list[tuple[str, ...]]:
    """Words by line: data, outer optimiser, precision; then rounds and kB for each number of local steps."""
    heads = (f"H = {number}: rounds, kB" for number in steps)
    lines: list[tuple[str, ...]] = [("data", "outer", "precision", "", *heads)]
    by = {(row["skewed"], row["outer"], row["precision"], row["steps"]): row for row in rows}
    for skewed, outer, precision in dict.fromkeys((row["skewed"], row["outer"], row["precision"]) for row in rows):
        cells = []
        for number in steps:
            row = by[skewed, outer, precision, number]
            cells.append("not reached" if row["rounds"] is None else f"{row['rounds']:g}, {row['kb']}")
        lines.append(("skewed" if skewed else "equal", outer, precision, "", *cells))
    return lines
