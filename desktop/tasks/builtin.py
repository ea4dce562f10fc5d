"""The tasks that come with the program, and the cards that show them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from desktop.state import TaskCard
from desktop.tasks.spec import Column, Images, Table, TaskSpec, Text
from desktop.tasks.tables import is_table

MODELS = {
    "digits-cnn": "Small convolutional network: two convolutions, two linear layers",
    "small-cnn": "Convolutional network for photographs: four convolutions, about 95,000 parameters",
    "mnist-cnn": "Small convolutional network: two convolutions, two linear layers with dropout",
    "mlp": "Linear layers with ReLU between them",
    "lus-cnn": "Small convolutional network: two convolutions, one linear layer",
    "mobilenet-v1": "MobileNet at a quarter of its width, about 216,000 parameters",
    "mobilenet-v2": "MobileNetV2 at 0.35 of its width, about 1.7 million parameters",
    "gpt-nano": "GPT of 3 layers, about 100,000 parameters with bytes",
    "gpt-micro": "GPT of 4 layers, about 0.8 million parameters with bytes",
    "gpt-mini": "GPT of 6 layers, about 2.7 million parameters with bytes",
    "gpt2": "GPT-2 small: 12 layers, 86 million parameters with bytes, 124 million with GPT-2's tokens",
}

PLAIN = (".txt", ".text", ".md")  # files that are text as long as nothing says otherwise

WANTED = {"images": "One folder of pictures for each class", "table": "A CSV file or a spreadsheet",
          "text": "Files of plain text (.txt, .md), or a folder that holds some"}

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

MNIST = TaskSpec(
    id="mnist", title="MNIST digits", text="Reads a handwritten digit, 0 to 9, from a grey picture of 28 × 28 points.",
    form=Images(classes=tuple("0123456789"), height=28, width=28, channels=1, strokes=True), model="mnist-cnn",
    optimiser="adam", lr=1e-3, weight_decay=0.0, batch=64, local_steps=100, local_epochs=2.0, rounds=10,
)

MNIST_MLP = TaskSpec(
    id="mnist-mlp", title="MNIST digits, exchange after each step",
    text="The same with the plainest network, for trying out rooms that exchange after every single step.",
    form=MNIST.form, model="mlp", widths=(128,), optimiser="sgd", lr=0.1, weight_decay=0.0, batch=64, local_steps=1,
    rounds=500,
)

LUS_COVID = TaskSpec(
    id="lus_covid", title="Lung ultrasound", text="Tells ultrasound pictures of lungs with COVID-19 from others.",
    form=Images(classes=("COVID-Negative", "COVID-Positive"), height=100, width=100, channels=3), model="lus-cnn",
    optimiser="sgd", lr=0.01, weight_decay=0.0, batch=5, local_steps=50, local_epochs=2.0, rounds=25,
)

CIFAR10 = TaskSpec(
    id="cifar10", title="CIFAR-10", text="Says which of ten things a small photograph shows.",
    form=Images(classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
                height=224, width=224, channels=3),
    model="mobilenet-v1", optimiser="sgd", lr=0.01, weight_decay=0.0, batch=10, local_steps=100, local_epochs=1.0,
    rounds=10,
)

SIMPLE_FACE = TaskSpec(
    id="simple_face", title="Child or adult", text="Tells children's faces from those of adults.",
    form=Images(classes=("adult", "child"), height=200, width=200, channels=3), model="mobilenet-v2",
    optimiser="sgd", lr=0.001, weight_decay=0.0, batch=10, local_steps=100, local_epochs=1.0, rounds=50,
)

SHAKESPEARE = TaskSpec(
    id="shakespeare", title="A play by Shakespeare", text="Learns to write like Hamlet, letter by letter.",
    form=Text(tokens="bytes", block=128), model="gpt-nano", optimiser="adamw", lr=1e-3, clip=1.0, batch=8,
    local_steps=50, rounds=30, sample="shakespeare",
)

WIKITEXT = TaskSpec(
    id="wikitext", title="WikiText", text="Learns to write articles, in pieces of words that are chosen from the text.",
    form=Text(tokens="bpe", block=128), model="gpt-nano", optimiser="adamw", lr=1e-3, clip=1.0, batch=8,
    local_steps=50, rounds=60,
)

TEXT = TaskSpec(
    id="text", title="Your own text", text="Learns to write like your texts, letter by letter, in any language.",
    form=Text(tokens="characters", block=128), model="gpt-micro", optimiser="adamw", lr=1e-3, clip=1.0, batch=16,
    local_steps=50, rounds=40,
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

TASKS: dict[str, TaskSpec] = {task.id: task for task in (
    DIGITS, PENGUINS, SHAKESPEARE, IMAGES, TABLE, TEXT, MNIST, MNIST_MLP, LUS_COVID, CIFAR10, SIMPLE_FACE, TITANIC,
    WIKITEXT)}


def fitting_task(paths: Iterable[str]) -> str:
    """The task of one's own that these files or folders are for."""
    every = [Path(path) for path in paths]
    if all(is_table(path) for path in every):
        return "table"
    return "text" if all(path.suffix.lower() in PLAIN for path in every) else "images"


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
                    model=MODELS[spec.model], sample=bool(spec.sample))


def _named(names: Iterable[str]) -> str:
    """The first twelve of them."""
    every = list(names)
    return ", ".join(every[:12]) + (", …" if len(every) > 12 else "")
