"""The values that a room fixes before it starts: batch, learning rate, local steps, rounds, wire precision."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout

from desktop.intents import SetTraining
from desktop.state import TrainingValues
from desktop.ui.theme import theme
from desktop.ui.widgets import Card, ChoiceBox, ElidedLabel, RateBox, WholeBox, field, label, row, set_text

PRECISIONS = ("f32", "f16")


class ValuesCard(Card):
    """One line of five fields; shown before Start only."""

    intent = Signal(object)

    def __init__(self) -> None:
        super().__init__(padding=16, spacing=10)
        self._shown: TrainingValues | None = None
        self._showing = False
        self.batch = WholeBox(self.tr("Batch"), 1, 65536)
        self.lr = RateBox(self.tr("Learning rate"), 0.000001, 10.0)
        self.local_steps = WholeBox(self.tr("Local steps"), 1, 100000)
        self.rounds = WholeBox(self.tr("Rounds"), 1, 100000)
        self.precision = ChoiceBox(self.tr("Wire precision"))
        self.precision.addItems(PRECISIONS)
        self.batch.setToolTip(self.tr("pictures in one step"))
        self.lr.setToolTip(self.tr("how far one step goes"))
        self.local_steps.setToolTip(self.tr("steps on your own data between two exchanges"))
        self.rounds.setToolTip(self.tr("how often the room exchanges what it learnt"))
        self.precision.setToolTip(self.tr("how exactly numbers travel; f16 halves the bytes"))
        self.note = ElidedLabel("", "quiet")
        head = row(label(self.tr("How the room trains"), "strong"), self.note, spacing=14)
        head.setStretch(1, 1)
        self.body.addLayout(head)
        self.body.addLayout(self._fields())
        self._connect()

    def show_values(self, values: TrainingValues, *, own: bool) -> None:
        """Show the values; `own` when this window may change them."""
        for part in (self.batch, self.lr, self.local_steps, self.rounds, self.precision):
            part.setEnabled(own)
        set_text(self.note, self.tr("the same for all, fixed at Start") if own else self.tr("the host sets these"))
        if values == self._shown:
            return
        self._shown = values
        self._showing = True
        self.batch.setValue(values.batch)
        self.lr.setValue(values.lr)
        self.local_steps.setValue(values.local_steps)
        self.rounds.setValue(values.rounds)
        if self.precision.findText(values.precision) < 0:
            self.precision.addItem(values.precision)
        self.precision.setCurrentText(values.precision)
        self._showing = False

    def _fields(self) -> QHBoxLayout:
        line = row(spacing=12)
        for name, part in ((self.tr("Batch"), self.batch), (self.tr("Learning rate"), self.lr),
                           (self.tr("Local steps"), self.local_steps), (self.tr("Rounds"), self.rounds),
                           (self.tr("Precision"), self.precision)):
            part.setMinimumWidth(theme.px(72))
            line.addLayout(field(name, part), 1)
        return line

    def _connect(self) -> None:
        self.batch.valueChanged.connect(lambda value: self._send("batch", value))
        self.lr.valueChanged.connect(lambda value: self._send("lr", value))
        self.local_steps.valueChanged.connect(lambda value: self._send("local_steps", value))
        self.rounds.valueChanged.connect(lambda value: self._send("rounds", value))
        self.precision.currentTextChanged.connect(lambda value: self._send("precision", value))

    def _send(self, key: str, value: object) -> None:
        """What the snapshot brings is not sent back; only what the person changes is."""
        if not self._showing and self._shown is not None:
            text = f"{value:.10g}" if isinstance(value, float) else str(value)
            self.intent.emit(SetTraining(key, text))
