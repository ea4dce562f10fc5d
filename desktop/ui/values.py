"""How a room trains: steps, rounds, precision, weights, outer optimiser; before Start, and changed while it trains."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from desktop.intents import SetTraining
from desktop.state import TrainingValues
from desktop.ui.theme import theme
from desktop.ui.widgets import Card, ChoiceBox, ElidedLabel, RateBox, WholeBox, button, field, label, row, set_text

PRECISIONS = ("f32", "f16", "int8")
OUTER = ("none", "momentum", "nesterov")
WEIGHTINGS = ("samples", "equal")
TOPOLOGIES = ("butterfly", "star")
LATE = ("drop", "carry")


class EpochsBox(RateBox):
    """A field for a number of epochs; 0 says that steps are counted. A step is one epoch."""

    def __init__(self, name: str) -> None:
        super().__init__(name, 0.0, 1000.0)
        self.setSpecialValueText(self.tr("off"))

    def stepBy(self, steps: int) -> None:
        self.setValue(max(0.0, self.value() + steps))


class ValuesCard(Card):
    """Five fields on one line; three more in their place, and then another three."""

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
        self.local_epochs = EpochsBox(self.tr("Local epochs"))
        self.weighting = ChoiceBox(self.tr("Members weigh by"))
        self.weighting.addItems(WEIGHTINGS)
        self.topology = ChoiceBox(self.tr("Who adds up"))
        self.topology.addItems(TOPOLOGIES)
        self.outer = ChoiceBox(self.tr("Outer optimiser"))
        self.outer.addItems(OUTER)
        self.outer_lr = RateBox(self.tr("Outer learning rate"), 0.000001, 10.0)
        self.outer_momentum = RateBox(self.tr("Outer momentum"), 0.0, 0.999)
        self.late = ChoiceBox(self.tr("Late work"))
        self.late.addItems(LATE)
        self.batch.setToolTip(self.tr("pictures in one step"))
        self.lr.setToolTip(self.tr("how far one step goes"))
        self.local_steps.setToolTip(self.tr("steps on your own data between two exchanges"))
        self.rounds.setToolTip(self.tr("how often the room exchanges what it learnt"))
        self.precision.setToolTip(self.tr("how exactly numbers travel; f16 halves the bytes, int8 quarters them"))
        self.local_epochs.setToolTip(self.tr("passes through your own data between two exchanges, instead of steps"))
        self.weighting.setToolTip(self.tr("samples: more data counts more; equal: each member counts alike"))
        self.topology.setToolTip(self.tr("butterfly: members share the adding up, as their links allow; "
                                         "star: the leader does it all, when it alone has a fast link"))
        self.outer.setToolTip(self.tr("what is done with the members' mean; nesterov is what DiLoCo does"))
        self.late.setToolTip(self.tr(
            "work of a member that misses its round — drop: it is left out; carry: the member adds it to its next "
            "contribution. Choose carry when a slow member's data must not be lost; what it learnt is a little out of "
            "date by then."))
        self.note = ElidedLabel("", "quiet")
        self.more = button("", lambda: self._turn(self._line_shown + 1), "link", self.tr("More values"))
        head = row(label(self.tr("How the room trains"), "strong"), self.note, self.more, spacing=14)
        head.setStretch(1, 1)
        self.body.addLayout(head)
        self._lines = self._fields()
        for fields in self._lines:
            self.body.addWidget(fields)
        self._turn(0)
        self._connect()

    def show_values(self, values: TrainingValues, *, own: bool, running: bool = False) -> None:
        """Show the values; `own` when this window may change them, `running` when they count from the next round on."""
        parts = (self.batch, self.lr, self.local_steps, self.rounds, self.precision, self.local_epochs, self.weighting,
                 self.topology, self.outer, self.outer_lr, self.outer_momentum, self.late)
        for part in parts:
            part.setEnabled(own)
        stepwise = values.outer != "none"
        for part in (self.outer_lr, self.outer_momentum):
            part.setEnabled(own and stepwise)
        if running:
            note = self.tr("a change counts from the next round on, for all") if own else self.tr(
                "the leader sets these")
        else:
            note = self.tr("the same for all") if own else self.tr("the host sets these")
        set_text(self.note, note)
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
        self.local_epochs.setValue(values.local_epochs)
        self.weighting.setCurrentText(values.weighting)
        self.topology.setCurrentText(values.topology)
        self.outer.setCurrentText(values.outer)
        self.outer_lr.setValue(values.outer_lr)
        self.outer_momentum.setValue(values.outer_momentum)
        self.late.setCurrentText(values.late)
        self._showing = False

    def _turn(self, line: int) -> None:
        """Show this line alone; after the last comes the first."""
        self._line_shown = line % len(self._lines)
        for number, fields in enumerate(self._lines):
            fields.setVisible(number == self._line_shown)
        last = self._line_shown == len(self._lines) - 1
        set_text(self.more, self.tr("Back") if last else self.tr("More"))

    def _fields(self) -> tuple[QWidget, ...]:
        first = self._line(68, (self.tr("Batch"), self.batch), (self.tr("Learning rate"), self.lr),
                           (self.tr("Local steps"), self.local_steps), (self.tr("Rounds"), self.rounds),
                           (self.tr("Precision"), self.precision))
        second = self._line(48, (self.tr("Epochs"), self.local_epochs), (self.tr("Weigh by"), self.weighting),
                            (self.tr("Adding up"), self.topology), (self.tr("Late work"), self.late))
        third = self._line(48, (self.tr("Outer optimiser"), self.outer), (self.tr("Rate"), self.outer_lr),
                           (self.tr("Momentum"), self.outer_momentum))
        return first, second, third

    def _line(self, least: int, *fields: tuple[str, QWidget]) -> QWidget:
        line = row(spacing=12)
        for name, part in fields:
            if not isinstance(part, ChoiceBox):  # that is never narrower than its longest word
                part.setMinimumWidth(theme.px(least))
            line.addLayout(field(name, part), 1)
        whole = QWidget()
        whole.setLayout(line)
        return whole

    def _connect(self) -> None:
        self.batch.valueChanged.connect(lambda value: self._send("batch", value))
        self.lr.valueChanged.connect(lambda value: self._send("lr", value))
        self.local_steps.valueChanged.connect(lambda value: self._send("local_steps", value))
        self.rounds.valueChanged.connect(lambda value: self._send("rounds", value))
        self.precision.currentTextChanged.connect(lambda value: self._send("precision", value))
        self.local_epochs.valueChanged.connect(lambda value: self._send("local_epochs", value))
        self.weighting.currentTextChanged.connect(lambda value: self._send("weighting", value))
        self.topology.currentTextChanged.connect(lambda value: self._send("topology", value))
        self.outer.currentTextChanged.connect(lambda value: self._send("outer", value))
        self.outer_lr.valueChanged.connect(lambda value: self._send("outer_lr", value))
        self.outer_momentum.valueChanged.connect(lambda value: self._send("outer_momentum", value))
        self.late.currentTextChanged.connect(lambda value: self._send("late", value))

    def _send(self, key: str, value: object) -> None:
        """What the snapshot brings is not sent back; only what the person changes is."""
        if not self._showing and self._shown is not None:
            text = f"{value:.10g}" if isinstance(value, float) else str(value)
            self.intent.emit(SetTraining(key, text))
