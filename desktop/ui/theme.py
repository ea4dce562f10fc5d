"""The look: colours of the light and the dark theme, type, spacing, and the one style sheet made of them."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontMetricsF, QPalette
from PySide6.QtWidgets import QApplication, QLabel, QStyleFactory, QWidget

THEMES = ("system", "light", "dark")


@dataclass(frozen=True)
class Tokens:
    """The colours of one theme, as "#RRGGBB". `faint` is for marks only, never for text: it lacks contrast."""

    window: str
    surface: str
    line: str
    text: str
    quiet: str
    faint: str
    mine: str
    on_mine: str
    room: str
    good: str
    care: str
    bad: str
    selection: str
    hover: str
    rest: str


LIGHT = Tokens(
    window="#F6F6F3", surface="#FFFFFF", line="#E4E3DE", text="#1E1F1D", quiet="#6A6B66", faint="#9A9B95",
    mine="#0E7C73", on_mine="#FFFFFF", room="#4B53C6", good="#2F7D4F", care="#A65708", bad="#B3261E",
    selection="#EAF4F1", hover="#EFEFEB", rest="#E4E3DE",
)  # fmt: skip
DARK = Tokens(
    window="#161819", surface="#1E2123", line="#2F3335", text="#ECEDEA", quiet="#A3A6A2", faint="#757975",
    mine="#3DB8AB", on_mine="#0F1716", room="#9198F5", good="#6CC08B", care="#E3A24B", bad="#F08A80",
    selection="#1D2E2D", hover="#24282A", rest="#34393B",
)  # fmt: skip

# Advance of this text in Inter, in ems. A wider interface font is set a little smaller, so that all fonts fit alike.
_MEASURE = "The model changed while training on 0123456789 pictures"
_INTER_EMS = 27.81


class Theme(QObject):
    """Which theme is on. `changed` tells what cannot follow a style sheet: charts, icons, own painting."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.choice = "system"
        self.tokens = LIGHT
        self.em = 13.0
        self._ready = False

    def prepare(self, app: QApplication) -> None:
        """Set style and font of the application once, and follow the system from now on."""
        if self._ready:
            return
        self._ready = True
        app.setStyle(QStyleFactory.create("Fusion"))
        app.setFont(self._interface_font(app.font()))
        app.styleHints().colorSchemeChanged.connect(self._system_changed)
        self._apply(app)

    def choose(self, choice: str) -> None:
        """Take "system", "light" or "dark", at once."""
        if choice not in THEMES:
            raise ValueError(f"theme must be one of {THEMES}, not {choice!r}")
        self.choice = choice
        app = QApplication.instance()
        if isinstance(app, QApplication):
            scheme = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}.get(choice, Qt.ColorScheme.Unknown)
            app.styleHints().setColorScheme(scheme)
            self._apply(app)

    def color(self, name: str) -> QColor:
        """The colour of a token."""
        return QColor(getattr(self.tokens, name))

    def px(self, size: float) -> int:
        """A length of the design (made for 13 px body text) in pixels of this screen's font."""
        return max(1, round(size * self.em / 13.0))

    def _interface_font(self, system: QFont) -> QFont:
        family = "Inter" if "Inter" in QFontDatabase.families() else system.family()
        probe = QFont(family)
        probe.setPixelSize(100)
        ems = QFontMetricsF(probe).horizontalAdvance(_MEASURE) / 100
        self.em = max(11.5, 13.0 * min(1.0, _INTER_EMS / ems))
        font = QFont([family, system.family()])
        font.setPixelSize(round(self.em))
        return font

    def _system_changed(self) -> None:
        app = QApplication.instance()
        if self.choice == "system" and isinstance(app, QApplication):
            self._apply(app)

    def _apply(self, app: QApplication) -> None:
        dark = self.choice == "dark" or (
            self.choice == "system" and app.styleHints().colorScheme() == Qt.ColorScheme.Dark
        )
        self.tokens = DARK if dark else LIGHT
        app.setPalette(palette(self.tokens))
        self.changed.emit()


theme = Theme()


def palette(t: Tokens) -> QPalette:
    """The palette for what the style sheet does not reach, dialogs of Qt among it."""
    roles = QPalette.ColorRole
    made = QPalette()
    for role, color in (
        (roles.Window, t.window), (roles.WindowText, t.text), (roles.Base, t.surface), (roles.AlternateBase, t.window),
        (roles.Text, t.text), (roles.Button, t.surface), (roles.ButtonText, t.text), (roles.BrightText, t.bad),
        (roles.Highlight, t.mine), (roles.HighlightedText, t.on_mine), (roles.PlaceholderText, t.quiet),
        (roles.ToolTipBase, t.surface), (roles.ToolTipText, t.text), (roles.Link, t.mine), (roles.LinkVisited, t.mine),
        (roles.Light, t.surface), (roles.Midlight, t.hover), (roles.Mid, t.line), (roles.Dark, t.rest),
        (roles.Shadow, t.rest), (roles.Accent, t.mine),
    ):  # fmt: skip
        made.setColor(role, QColor(color))
    for role in (roles.WindowText, roles.Text, roles.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(t.faint))
    return made


def style_sheet(t: Tokens) -> str:
    """The style sheet of the window. Roles are dynamic properties: `kind` (what it is), `tone` (how it stands)."""
    px = theme.px
    return f"""
QLabel {{ color: {t.text}; background: transparent; }}
QLabel[kind="display"] {{ font-size: {px(28)}px; font-weight: 600; }}
QLabel[kind="title"] {{ font-size: {px(20)}px; font-weight: 600; }}
QLabel[kind="code"] {{ font-size: {px(24)}px; font-weight: 600; }}
QLabel[kind="emphasis"] {{ font-size: {px(15)}px; font-weight: 600; }}
QLabel[kind="lead"] {{ font-size: {px(15)}px; color: {t.quiet}; }}
QLabel[kind="strong"] {{ font-size: {px(13)}px; font-weight: 600; }}
QLabel[kind="body"] {{ font-size: {px(13)}px; }}
QLabel[kind="quiet"] {{ font-size: {px(12)}px; color: {t.quiet}; }}
QLabel[kind="text"] {{ font-size: {px(13)}px; color: {t.quiet}; }}
QLabel[kind="tick"] {{ font-size: {px(11)}px; color: {t.quiet}; }}
QLabel[kind="tag"] {{ font-size: {px(11)}px; color: {t.quiet}; border: 1px solid {t.line};
    border-radius: {px(4)}px; padding: 0 {px(6)}px 1px {px(6)}px; }}
QLabel[kind="key"] {{ font-size: {px(12)}px; border: 1px solid {t.line}; border-radius: {px(4)}px;
    padding: 1px {px(7)}px; background: {t.window}; }}
QLabel[tone="good"] {{ color: {t.good}; }}
QLabel[tone="care"] {{ color: {t.care}; }}
QLabel[tone="bad"] {{ color: {t.bad}; }}
QLabel[tone="mine"] {{ color: {t.mine}; }}
QLabel[tone="plain"] {{ color: {t.text}; }}
QFrame[kind="card"] {{ background: {t.surface}; border: 1px solid {t.line}; border-radius: {px(10)}px; }}
QFrame[kind="chosen"] {{ background: {t.surface}; border: 2px solid {t.mine}; border-radius: {px(10)}px; }}
QFrame[kind="clear"] {{ background: transparent; border: none; }}
QFrame[kind="notice"] {{ background: {t.surface}; border: 1px solid {t.line}; border-radius: {px(8)}px; }}
QFrame[kind="rule"] {{ background: {t.line}; border: none; }}
QFrame[kind="rail"] {{ background: {t.window}; border: none; border-right: 1px solid {t.line}; }}
QPushButton {{ font-size: {px(13)}px; font-weight: 500; color: {t.text}; background: {t.surface};
    border: 1px solid {t.line}; border-radius: {px(8)}px; padding: {px(7)}px {px(14)}px; }}
QPushButton:hover {{ background: {t.hover}; }}
QPushButton:pressed {{ background: {t.selection}; }}
QPushButton:focus {{ border: 1px solid {t.mine}; outline: none; }}
QPushButton:disabled {{ color: {t.quiet}; background: {t.window}; }}
QPushButton[kind="primary"] {{ color: {t.on_mine}; background: {t.mine}; border: 1px solid {t.mine}; }}
QPushButton[kind="primary"]:hover {{ background: {_mix(t.mine, t.text, 0.12)}; }}
QPushButton[kind="primary"]:focus {{ border: 2px solid {t.text}; padding: {px(7) - 1}px {px(14) - 1}px; }}
QPushButton[kind="primary"]:disabled {{ color: {t.quiet}; background: {t.hover}; border: 1px solid {t.line}; }}
QPushButton[kind="link"] {{ color: {t.mine}; background: transparent; border: 1px solid transparent;
    border-radius: {px(4)}px; padding: 1px 0; }}
QPushButton[kind="link"]:hover {{ text-decoration: underline; }}
QPushButton[kind="link"]:focus {{ border: 1px solid {t.mine}; }}
QPushButton[kind="link"]:disabled {{ color: {t.quiet}; }}
QPushButton[kind="rail"] {{ color: {t.quiet}; background: transparent; border: 1px solid transparent;
    font-weight: 400; text-align: left; padding: {px(6)}px {px(9)}px; }}
QPushButton[kind="rail"]:hover {{ background: {t.hover}; }}
QPushButton[kind="rail"]:checked {{ background: {t.selection}; color: {t.text}; font-weight: 600; }}
QPushButton[kind="rail"]:focus {{ border: 1px solid {t.mine}; }}
QPushButton[kind="icon"] {{ background: transparent; border: 1px solid transparent; border-radius: {px(6)}px;
    padding: {px(3)}px; }}
QPushButton[kind="icon"]:hover {{ background: {t.hover}; }}
QPushButton[kind="icon"]:focus {{ border: 1px solid {t.mine}; }}
QPushButton[kind="tile"] {{ background: {t.surface}; border: 1px solid {t.line}; padding: {px(3)}px; }}
QPushButton[kind="tile"]:hover, QPushButton[kind="tile"]:focus {{ border: 2px solid {t.mine}; padding: {px(3) - 1}px; }}
QPushButton[kind="choice"] {{ background: {t.surface}; border-radius: {px(10)}px; text-align: left; }}
QPushButton[kind="choice"]:checked {{ border: 2px solid {t.mine}; }}
QLineEdit, QSpinBox, QDoubleSpinBox, QComboBox {{ font-size: {px(13)}px; color: {t.text}; background: {t.surface};
    border: 1px solid {t.line}; border-radius: {px(8)}px; padding: 0 {px(9)}px;
    selection-background-color: {t.mine}; selection-color: {t.on_mine}; }}
QLineEdit:hover, QSpinBox:hover, QDoubleSpinBox:hover, QComboBox:hover {{ border-color: {t.faint}; }}
QLineEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus {{ border-color: {t.mine}; }}
QLineEdit:read-only {{ background: {t.window}; }}
QLineEdit:disabled, QSpinBox:disabled, QDoubleSpinBox:disabled, QComboBox:disabled {{ color: {t.quiet};
    background: {t.window}; border-color: {t.line}; }}
QLineEdit[kind="name"] {{ font-weight: 600; padding: {px(2)}px {px(6)}px; border-radius: {px(6)}px; }}
QSpinBox, QDoubleSpinBox {{ padding: 0 {px(24)}px 0 0; }}
QAbstractSpinBox > QLineEdit {{ border: none; background: transparent; padding: 0; margin: 0; }}
QSpinBox::up-button, QDoubleSpinBox::up-button {{ subcontrol-origin: border; subcontrol-position: top right;
    width: {px(22)}px; border: none; background: transparent; }}
QSpinBox::down-button, QDoubleSpinBox::down-button {{ subcontrol-origin: border; subcontrol-position: bottom right;
    width: {px(22)}px; border: none; background: transparent; }}
QSpinBox::up-arrow, QSpinBox::down-arrow, QDoubleSpinBox::up-arrow, QDoubleSpinBox::down-arrow,
QComboBox::down-arrow {{ image: none; width: 0; height: 0; }}
QComboBox {{ padding: 0 {px(24)}px 0 {px(9)}px; }}
QComboBox::drop-down {{ border: none; width: {px(22)}px; }}
QComboBox QAbstractItemView {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.line}; outline: none;
    selection-background-color: {t.selection}; selection-color: {t.text}; padding: {px(4)}px; }}
QTableView {{ background: transparent; border: none; gridline-color: transparent; font-size: {px(12)}px;
    color: {t.text}; selection-background-color: {t.selection}; selection-color: {t.text}; outline: none; }}
QTableView:focus {{ border: none; }}
QTableView::item {{ border: none; border-bottom: 1px solid {t.line}; padding: 0 {px(6)}px 0 1px; }}
QHeaderView, QHeaderView::section {{ background: transparent; border: none; color: {t.quiet}; font-size: {px(12)}px;
    font-weight: 500; }}
QHeaderView::section {{ border-bottom: 1px solid {t.line}; padding: {px(6)}px {px(6)}px {px(6)}px {px(4)}px; }}
QTableCornerButton::section {{ background: transparent; border: none; }}
QScrollArea {{ background: transparent; border: none; }}
QWidget[kind="clear"] {{ background: transparent; }}
QScrollBar:vertical {{ background: transparent; width: {px(8)}px; margin: 0; }}
QScrollBar:horizontal {{ background: transparent; height: {px(8)}px; margin: 0; }}
QScrollBar::handle {{ background: {t.rest}; border-radius: {px(8) // 2}px; min-height: {px(24)}px;
    min-width: {px(24)}px; }}
QScrollBar::handle:hover {{ background: {t.faint}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
QMenu {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.line}; padding: {px(4)}px;
    font-size: {px(13)}px; }}
QMenu::item {{ padding: {px(6)}px {px(24)}px {px(6)}px {px(12)}px; border-radius: {px(4)}px; }}
QMenu::item:selected {{ background: {t.hover}; }}
QMenu::item:disabled {{ color: {t.faint}; }}
QToolTip {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.line}; padding: {px(4)}px; }}
"""


def set_kind(widget: QWidget, kind: str) -> None:
    """Give a widget its role in the style sheet."""
    _set_property(widget, "kind", kind)


def set_tone(label: QLabel, tone: str) -> None:
    """Colour a label "good", "care", "bad", "mine", "plain", or "" for the colour of its kind."""
    _set_property(label, "tone", tone)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours by WCAG 2, from 1 to 21."""
    a, b = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (a + 0.05) / (b + 0.05)


def _luminance(color: str) -> float:
    made = QColor(color)
    parts = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (made.redF(), made.greenF(), made.blueF())
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def _mix(one: str, other: str, share: float) -> str:
    a, b = QColor(one), QColor(other)
    parts = ((a.red(), b.red()), (a.green(), b.green()), (a.blue(), b.blue()))
    red, green, blue = (round(x + (y - x) * share) for x, y in parts)
    return QColor(red, green, blue).name()


def _set_property(widget: QWidget, name: str, value: str) -> None:
    if widget.property(name) == value:
        return
    widget.setProperty(name, value)
    widget.style().unpolish(widget)
    widget.style().polish(widget)
