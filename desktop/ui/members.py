"""The members card of the Train page: who is there, what they do, how they are reached, how their time goes."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from desktop.state import MemberRow
from desktop.ui.charts import legend_mark
from desktop.ui.formats import DASH, duration, megabytes, milliseconds, percent, time_left, tr
from desktop.ui.theme import set_tone, theme
from desktop.ui.widgets import Bar, Card, ElidedLabel, column, label, number_label, row, rule, scroll, set_text

_NO_TIME = ("ready", "done", "")
WORTH_A_WORD = 10_000_000  # bytes on their way


def has_begun(member: MemberRow) -> bool:
    """Whether there is anything to tell about how this member's time went."""
    return member.training_share + member.exchanging_share > 0 or member.sent_bytes + member.received_bytes > 0


def with_lanes(way: str, member: MemberRow) -> str:
    """How a member is reached, with the lanes when they are more than one WebRTC connection."""
    if member.lanes.get("tls"):
        return tr("{way}, TLS").format(way=way)
    if (lanes := member.lanes.get("webrtc", 0)) > 1:
        return tr("{way}, {n} lanes").format(way=way, n=lanes)
    return way


class MemberLine(QWidget):
    """One member."""

    def __init__(self) -> None:
        super().__init__()
        self._row: tuple[MemberRow, bool] | None = None
        self.name = ElidedLabel("", "strong")
        self.tag = label("", "tag")
        self.state = number_label()
        self.link = ElidedLabel("", "quiet")
        self.traffic = number_label()
        self.bar = Bar(self.tr("Share of time"))
        self.line = rule()
        first = row(self.name, self.tag, 1, self.state, spacing=8)
        second = row(self.link, self.traffic, spacing=8)
        second.setStretch(0, 1)
        layout = column(first, second, self.bar, self.line, spacing=3)
        layout.setContentsMargins(0, theme.px(7), 0, 0)
        layout.insertSpacing(2, theme.px(2))
        layout.insertSpacing(4, theme.px(5))
        self.setLayout(layout)

    def show_member(self, member: MemberRow, *, awaited: bool, last: bool) -> None:
        """Show this member; `awaited` when the round waits for it."""
        self.line.setVisible(not last)
        if self._row == (member, awaited):
            return
        self._row = member, awaited
        set_text(self.name, member.name)
        tag = self._tag(member)
        set_text(self.tag, tag)
        self.tag.setVisible(bool(tag))
        words, tone = self._state(member, awaited)
        set_text(self.state, words)
        set_tone(self.state, tone)
        set_text(self.link, " · ".join(self._link(member)))
        traffic, at_length = self._traffic(member)
        set_text(self.traffic, traffic)
        self.traffic.setToolTip(at_length)
        self.bar.show_parts((member.training_share, "mine"), (member.exchanging_share, "room"),
                            words=self._shares(member))
        self.bar.setToolTip(self._shares(member))
        begun = has_begun(member)
        self.bar.setVisible(begun)
        self.traffic.setVisible(begun)
        self.setAccessibleName(f"{member.name}, {words}")

    def _tag(self, member: MemberRow) -> str:
        leads = member.role == "leader"
        if member.you:
            return self.tr("you · leader") if leads else self.tr("you")
        return self.tr("leader") if leads else ""

    def _state(self, member: MemberRow, awaited: bool) -> tuple[str, str]:
        words = {
            "training": self.tr("still training") if awaited else self.tr("training"),
            "ready": self.tr("ready"), "exchanging": self.tr("exchanging"), "waiting": self.tr("waiting"),
            "getting the weights": self.tr("getting the weights"), "lost": self.tr("lost"), "done": self.tr("done"),
        }.get(member.state, member.state)  # fmt: skip
        tone = {"ready": "good", "done": "good", "lost": "bad"}.get(member.state, "care" if awaited else "")
        if member.state not in _NO_TIME and member.state_for_s >= 1 and (awaited or member.state == "lost"):
            words = self.tr("{state}, {time}").format(state=words, time=duration(member.state_for_s))
        return words, tone

    def _link(self, member: MemberRow) -> list[str]:
        parts = [member.backend.upper() if len(member.backend) <= 4 else member.backend]
        if not member.you:
            parts.append(self._way(member))
            if member.rtt_ms is not None:
                parts.append(milliseconds(member.rtt_ms))
            if member.next_try_s is not None and member.link in ("lost", "connecting"):
                parts.append(self.tr("next try in {time}").format(time=duration(member.next_try_s)))
        if member.weight is not None:
            parts.append(self.tr("weighs {share}").format(share=percent(member.weight, 0)))
        return [part for part in parts if part]

    def _way(self, member: MemberRow) -> str:
        way = {"direct": self.tr("direct"), "relay": self.tr("relayed"), "connecting": self.tr("connecting…"),
               "lost": self.tr("no link")}.get(member.link, member.link)
        return with_lanes(way, member)

    def _traffic(self, member: MemberRow) -> tuple[str, str]:
        """What has gone and come, or how far large messages are while some are on their way; and the same at length."""
        short, long, left = [], [], []
        for outgoing, arrow, verb in ((True, "↑", self.tr("sending")), (False, "↓", self.tr("receiving"))):
            these = [each for each in member.moving if each.outgoing is outgoing]
            done, total = sum(each.done_bytes for each in these), sum(each.total_bytes for each in these)
            if total < WORTH_A_WORD:
                continue
            longest = max((each.left_s for each in these if each.left_s is not None), default=None)
            left += [longest] if longest is not None else []
            short.append(f"{arrow} {percent(done / total, 0)}")
            long.append(self.tr("{verb} {done} of {total} MB, {left}").format(
                verb=verb, done=megabytes(done), total=megabytes(total), left=time_left(longest) or DASH))
        if short:
            return " ".join(short) + (f" · {duration(max(left))}" if left else ""), "; ".join(long)
        moved = self.tr("↑ {up} ↓ {down} MB").format(
            up=megabytes(member.sent_bytes), down=megabytes(member.received_bytes))
        return moved, self.tr("sent and received since Start")

    def _shares(self, member: MemberRow) -> str:
        waiting = max(0.0, 1 - member.training_share - member.exchanging_share)
        return self.tr("training {a}, exchanging {b}, waiting {c}").format(
            a=percent(member.training_share, 0), b=percent(member.exchanging_share, 0), c=percent(waiting, 0))


class MembersCard(Card):
    """All members, with a legend; scrolls when they are many."""

    def __init__(self) -> None:
        super().__init__(padding=16, spacing=4)
        self.body.setContentsMargins(theme.px(16), theme.px(12), theme.px(16), theme.px(12))
        self._shown: object = None
        self.lines: list[MemberLine] = []
        self._list = QVBoxLayout()
        self._list.setContentsMargins(0, 0, theme.px(2), 0)
        self._list.setSpacing(0)
        self._content = QWidget()
        self._content.setLayout(column(self._list, 1, spacing=0))
        self.area = scroll(self._content, self.tr("Members"))
        self.area.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.count = number_label("", "quiet")
        self.nobody = label(self.tr("Nobody else is here yet."), "quiet", wrap=True)
        self.body.addLayout(row(label(self.tr("Members"), "strong"), 1, self.count))
        self.body.addWidget(self.nobody)
        self.body.addWidget(self.area, 100)
        self.body.addSpacing(theme.px(6))
        self.legend = QWidget()
        self.legend.setLayout(row(
            legend_mark("mine", self.tr("training")), legend_mark("room", self.tr("exchanging")),
            legend_mark("rest", self.tr("waiting")), 1, spacing=10))
        self.body.addWidget(self.legend)
        self.body.addStretch(1)

    def show_members(self, members: tuple[MemberRow, ...], waiting_for: str) -> None:
        """Show these rows; the names in `waiting_for` are marked."""
        if self._shown == (members, waiting_for):
            return
        self._shown = members, waiting_for
        while len(self.lines) < len(members):
            self.lines.append(MemberLine())
            self._list.addWidget(self.lines[-1])
        for line, member in zip(self.lines, members, strict=False):
            awaited = bool(member.name) and not member.you and member.name in waiting_for
            line.show_member(member, awaited=awaited, last=member is members[-1])
            line.show()
        for line in self.lines[len(members):]:
            line.hide()
        self.nobody.setVisible(not members)
        self.area.setVisible(bool(members))
        self.legend.setVisible(any(has_begun(member) for member in members))
        self._list.activate()
        self.area.setMaximumHeight(self._content.sizeHint().height())
        set_text(self.count, str(len(members)) if len(members) > 4 else "")
