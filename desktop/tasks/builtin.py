"""The tasks that come with the program, and the cards that show them."""

from __future__ import annotations

from desktop.state import TaskCard
from desktop.tasks.spec import Images, TaskSpec

MODELS = {
    "digits-cnn": "Small convolutional network: two convolutions, two linear layers",
    "small-cnn": "Convolutional network for photographs: four convolutions, about 95,000 parameters",
}

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

TASKS: dict[str, TaskSpec] = {task.id: task for task in (DIGITS, IMAGES)}


def card(spec: TaskSpec) -> TaskCard:
    """The task as a card to choose."""
    data = "One folder of pictures for each class"
    if spec.classes:
        named = ", ".join(spec.classes[:12]) + (", …" if len(spec.classes) > 12 else "")
        data = f"{data}: {named}"
    if spec.sample:
        data = f"Sample pictures come with Peerloom. Or your own: {data[0].lower()}{data[1:]}"
    return TaskCard(id=spec.id, title=spec.title, text=spec.text, data=data, kind=spec.kind, model=MODELS[spec.model],
                    sample=bool(spec.sample))
