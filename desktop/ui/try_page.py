"""The Try page: how good the model is on pictures nobody trained on, and what it says to a picture of one's own."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QIcon, QPixmap
from PySide6.QtWidgets import QFileDialog, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from desktop.intents import GoTo, OpenFolder, TryImage, TrySample
from desktop.state import Confidence, TryView, WindowState
from desktop.ui.drop import PICTURES
from desktop.ui.figures import meaning, score
from desktop.ui.formats import percent
from desktop.ui.theme import set_kind, theme
from desktop.ui.widgets import (
    Bar,
    Card,
    ElidedLabel,
    Empty,
    IconLabel,
    Page,
    TitleLine,
    button,
    clear,
    column,
    label,
    number_label,
    page_layout,
    row,
    rule,
    scroll,
    set_text,
)

_PICTURE_SIDE = 208
_SAMPLE_SIDE = 44


class TryPage(Page):
    """Ask the model."""

    def __init__(self) -> None:
        super().__init__()
        self._view: TryView | None = None
        self._pictures = True  # whether the task is one for pictures; of others there is only the score so far
        self._picture = b""
        self._samples: tuple[bytes, ...] = ()
        self.sample_buttons: list[QPushButton] = []
        self.head = TitleLine(self.tr("Try the model"))
        self.choose = self.head.add(button(self.tr("Choose a picture…"), self.choose_picture, "primary"))
        self.empty = Empty("picture", self.tr("Nothing to try yet"),
                           self.tr("Train a model first. Then it waits here for your pictures."),
                           button(self.tr("Go to Train"), lambda: self.send(GoTo("train")), "primary"))
        self._for_pictures: list[QWidget] = [self.choose]
        answers = self._answer_card()
        top = row(self._picture_card(), answers, spacing=14)
        top.setStretch(1, 1)
        self._for_pictures.append(answers)
        self._body = QWidget()
        self._body.setLayout(column(top, self._samples_card(), self._model_card(), spacing=14))
        layout = page_layout(self)
        layout.addWidget(self.head)
        layout.addWidget(self._body, 1)
        layout.addWidget(self.empty, 1)

    def show_state(self, state: WindowState) -> None:
        view, pictures = state.try_, state.task is None or state.task.kind == "images"
        if (view, pictures) == (self._view, self._pictures):
            return
        self._view, self._pictures = view, pictures
        for part in self._for_pictures:
            part.setVisible(pictures)
        self._body.setVisible(view.ready)
        self.empty.setVisible(not view.ready)
        self.choose.setEnabled(view.ready)
        self._show_score(view)
        self._show_picture(view)
        self._show_answer(view.confidences, view.error)
        self._show_samples(view.samples)
        set_text(self.path, view.model_path)
        self._model.setVisible(bool(view.model_path))

    def choose_picture(self) -> None:
        """Ask for a picture without blocking; the answer is an intent."""
        patterns = " ".join(f"*{ending}" for ending in PICTURES)
        dialog = QFileDialog(self, self.tr("Choose a picture"), "", self.tr("Pictures ({patterns})").format(
            patterns=patterns))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda path: self.send(TryImage(path)))
        self.dialog = dialog
        dialog.open()

    # -- building

    def _picture_card(self) -> QWidget:
        card = Card(padding=16, spacing=8)
        side = theme.px(_PICTURE_SIDE)
        self.picture = QLabel()
        self.picture.setFixedSize(side, side)
        self.picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.picture.setWordWrap(True)
        set_kind(self.picture, "quiet")
        self.picture_name = ElidedLabel("", "quiet", Qt.TextElideMode.ElideMiddle)
        self.picture_name.setFixedWidth(side)
        head, line = label(self.tr("What the model sees"), "strong"), rule()
        self._for_pictures += [head, self.picture, self.picture_name, line]
        card.body.addWidget(head)
        card.body.addWidget(self.picture)
        card.body.addWidget(self.picture_name)
        card.body.addStretch(1)
        self.score, self.score_note = label("", "title"), label("", "quiet", wrap=True)
        self.score_note.setFixedWidth(side)
        card.body.addWidget(line)
        card.body.addSpacing(theme.px(2))
        card.body.addLayout(column(self.score, self.score_note, spacing=2))
        card.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        return card

    def _answer_card(self) -> QWidget:
        card = Card(padding=16, spacing=8)
        self.answer = ElidedLabel("", "emphasis")
        self._trouble_mark = IconLabel()
        self._trouble_mark.show_severity("bad", self.tr("Problem"))
        self.trouble = label("", wrap=True)
        trouble = row(self._trouble_mark, self.trouble, spacing=8)
        trouble.setStretch(1, 1)
        self._bars = QVBoxLayout()
        self._bars.setContentsMargins(0, 0, theme.px(4), 0)
        self._bars.setSpacing(theme.px(12))
        content = QWidget()
        content.setLayout(column(self._bars, 1))
        card.body.addWidget(self.answer)
        card.body.addLayout(trouble)
        card.body.addWidget(scroll(content, self.tr("How sure the model is of each class")), 1)
        return card

    def _samples_card(self) -> QWidget:
        self._samples_part = Card(padding=16, spacing=8)
        self._sample_line = row(spacing=8)
        head = row(label(self.tr("Or click one"), "strong"),
                   label(self.tr("pictures kept back for the test; nobody trained on them"), "quiet"), 1, spacing=14)
        self._samples_part.body.addLayout(head)
        self._samples_part.body.addLayout(self._sample_line)
        return self._samples_part

    def _model_card(self) -> QWidget:
        self._model = Card(padding=16, spacing=0)
        self._model.body.setContentsMargins(theme.px(16), theme.px(8), theme.px(8), theme.px(8))
        self.path = ElidedLabel("", "quiet", Qt.TextElideMode.ElideMiddle)
        self.open_folder = button(self.tr("Open folder"), self._open_folder)
        line = row(label(self.tr("Saved model"), "strong"), self.path, self.open_folder, spacing=14)
        line.setStretch(1, 1)
        self._model.body.addLayout(line)
        return self._model

    # -- showing

    def _show_score(self, view: TryView) -> None:
        set_text(self.score, score(view.test_accuracy, view.metrics))
        set_text(self.score_note, self.tr("{meaning}. Nobody trained on these.").format(
            meaning=meaning(view.metrics, view.test_samples)) if view.test_samples else self.tr("not tested yet"))

    def _show_picture(self, view: TryView) -> None:
        set_text(self.picture_name, view.picture_name)
        if view.picture == self._picture and self._picture:
            return
        self._picture = view.picture
        drawn = QPixmap()
        drawn.loadFromData(view.picture)
        if drawn.isNull():
            self.picture.setPixmap(QPixmap())
            self.picture.setText(self.tr("Drop a picture anywhere in this window."))
            return
        side = self.picture.width()
        small = drawn.width() < side
        mode = Qt.TransformationMode.FastTransformation if small else Qt.TransformationMode.SmoothTransformation
        self.picture.setPixmap(drawn.scaled(QSize(side, side), Qt.AspectRatioMode.KeepAspectRatio, mode))
        self.picture.setAccessibleName(self.tr("Picture {name}").format(name=view.picture_name))

    def _show_answer(self, confidences: tuple[Confidence, ...], error: str) -> None:
        best = max(confidences, key=lambda c: c.value, default=None)
        set_text(self.trouble, error)
        for part in (self.trouble, self._trouble_mark):
            part.setVisible(bool(error))
        if best is not None:
            set_text(self.answer, self.tr("{name}, {share} sure").format(name=best.name, share=percent(best.value, 0)))
        else:
            set_text(self.answer, "" if error else self.tr("No picture yet"))
        clear(self._bars)
        self.bars: list[Bar] = []
        widest = max((self.fontMetrics().horizontalAdvance(c.name) for c in confidences), default=0)
        wide = min(max(widest + theme.px(10), theme.px(28)), theme.px(160))
        for confidence in confidences:
            self._bars.addWidget(self._bar(confidence, wide, best=confidence is best))

    def _bar(self, confidence: Confidence, wide: int, *, best: bool) -> QWidget:
        name = ElidedLabel(confidence.name, "strong" if best else "body")
        name.setFixedWidth(wide)
        bar = Bar(self.tr("{name}: {share}").format(name=confidence.name, share=percent(confidence.value, 0)), 10)
        bar.show_parts((confidence.value, "mine" if best else "mine/2"))
        self.bars.append(bar)
        share = number_label(percent(confidence.value, 0), "quiet")
        share.setFixedWidth(theme.px(48))
        share.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        made = QWidget()
        line = row(name, bar, share, spacing=10)
        line.setStretch(1, 1)
        made.setLayout(line)
        return made

    def _show_samples(self, samples: tuple[bytes, ...]) -> None:
        self._samples_part.setVisible(bool(samples))
        if samples == self._samples:
            return
        self._samples = samples
        clear(self._sample_line)
        self.sample_buttons = []
        for index, png in enumerate(samples):
            self.sample_buttons.append(self._sample(index, png))
            self._sample_line.addWidget(self.sample_buttons[-1])
        self._sample_line.addStretch(1)

    def _sample(self, index: int, png: bytes) -> QPushButton:
        side = theme.px(_SAMPLE_SIDE)
        drawn = QPixmap()
        drawn.loadFromData(png)
        tile = button("", lambda: self.send(TrySample(index)), "tile",
                      self.tr("Test picture {n}").format(n=index + 1))
        tile.setFixedSize(side + 8, side + 8)
        tile.setIconSize(QSize(side, side))
        if not drawn.isNull():
            tile.setIcon(QIcon(drawn.scaled(QSize(2 * side, 2 * side), Qt.AspectRatioMode.KeepAspectRatio)))
        return tile

    def _open_folder(self) -> None:
        if self._view is not None and self._view.model_path:
            self.send(OpenFolder(self._view.model_path))

