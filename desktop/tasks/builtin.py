"""The tasks that come with the program, and the cards that show them."""

from __future__ import annotations

from desktop.state import TaskCard
from desktop.tasks.spec import Images, TaskSpec, Text

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

TASKS: dict[str, TaskSpec] = {task.id: task for task in (
    DIGITS, SHAKESPEARE, IMAGES, TEXT, MNIST, MNIST_MLP, LUS_COVID, CIFAR10, SIMPLE_FACE, WIKITEXT)}


def card(spec: TaskSpec) -> TaskCard:
    """The task as a card to choose."""
    wanted = WANTED[spec.kind]
    if spec.classes and spec.kind == "images":
        wanted += ": " + ", ".join(spec.classes[:12]) + (", …" if len(spec.classes) > 12 else "")
    if spec.sample:
        wanted = f"Sample data comes with Peerloom. Or your own: {wanted[0].lower()}{wanted[1:]}"
    return TaskCard(id=spec.id, title=spec.title, text=spec.text, data=wanted, kind=spec.kind, model=MODELS[spec.model],
                    sample=bool(spec.sample))
