"""The tasks that come with the program, and the cards that show them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from desktop.state import TaskCard
from desktop.tasks.spec import Column, Images, Table, TaskSpec
from desktop.tasks.tables import is_table

MODELS = {
    "digits-cnn": "Small convolutional network: two convolutions, two linear layers",
    "mlp": "Small network of linear layers",
    "small-cnn": "Convolutional network for photographs: four convolutions, about 95,000 parameters",
}

WANTED = {"images": "One folder of pictures for each class", "table": "A CSV file or a spreadsheet",
          "text": "Text files"}

DIGITS = TaskSpec(
    id="digits", title="Handwritten digits", text="Reads a handwritten digit, 0 to 9, from a tiny grey picture.",
    form=Images(classes=tuple("0123456789"), height=8, width=8, channels=1, strokes=True), model="digits-cnn",
    optimiser="adamw", lr=1e-3, batch=32, local_steps=20, rounds=20, sample="digits",
)

IMAGES = TaskSpec(
    id="images", title="Your own pictures", text="Tells apart what your folders of pictures show.",
    form=Images(height=64, width=64, channels=3), model="small-cnn", optimiser="adamw", lr=1e-3, batch=32,
    local_steps=20, rounds=30,
)

PENGUINS = TaskSpec(
    id="penguins", title="Penguins", text="Tells the species of a penguin by its size, its sex and its island.",
    form=Table(
        label="species", classes=("Adelie", "Chinstrap", "Gentoo"),
        columns=(Column(name="island", role="category", values=("Biscoe", "Dream", "Torgersen")),
                 *(Column(name=name, role="number")
                   for name in ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")),
                 Column(name="sex", role="category", values=("female", "male"))),
    ),
    model="mlp", widths=(64, 32), optimiser="adamw", lr=1e-3, batch=30, local_steps=10, rounds=22, sample="penguins",
)

TITANIC = TaskSpec(
    id="titanic", title="Titanic", text="Tells who survived, by age, family, fare and class on board.",
    form=Table(label="Survived", classes=("0", "1"), columns=tuple(
        Column(name=name, role="number") for name in ("Age", "SibSp", "Parch", "Fare", "Pclass"))),
    model="mlp", widths=(124, 64, 32), optimiser="adam", weight_decay=0.0, lr=1e-3, batch=30, local_epochs=2.0,
    rounds=12,
)

TABLE = TaskSpec(
    id="table", title="Your own table", text="Learns one column of your table from the others.",
    form=Table(label=""), model="mlp", widths=(64, 32), optimiser="adamw", lr=1e-3, batch=32, local_steps=20,
    rounds=32,
)

TASKS: dict[str, TaskSpec] = {task.id: task for task in (DIGITS, IMAGES, PENGUINS, TITANIC, TABLE)}


def fitting_task(paths: Iterable[str]) -> str:
    """The task of one's own that these files or folders are for."""
    return "table" if all(is_table(Path(path)) for path in paths) else "images"


def card(spec: TaskSpec) -> TaskCard:
    """The task as a card to choose."""
    data = WANTED[spec.kind]
    form = spec.form
    if isinstance(form, Table) and form.columns:
        data = f"{data} with the columns {_named(column.name for column in form.columns)} and {form.label}"
    elif spec.classes:
        data = f"{data}: {_named(spec.classes)}"
    if spec.sample:
        data = f"Sample data comes with Peerloom. Or your own: {data[0].lower()}{data[1:]}"
    return TaskCard(id=spec.id, title=spec.title, text=spec.text, data=data, kind=spec.kind,
                    model=MODELS.get(spec.model, spec.model), sample=bool(spec.sample))


def _named(names: Iterable[str]) -> str:
    """The first twelve of them."""
    every = list(names)
    return ", ".join(every[:12]) + (", …" if len(every) > 12 else "")
