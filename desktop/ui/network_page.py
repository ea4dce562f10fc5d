"""The Network page: who can reach this computer, at which addresses, and how each member is reached."""

from __future__ import annotations

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QSortFilterProxyModel, Qt
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from desktop.intents import CheckPaths, GoTo
from desktop.state import MemberRow, PathRow, PathsView, WindowState
from desktop.ui.formats import DASH, duration, milliseconds, size
from desktop.ui.members import with_lanes
from desktop.ui.theme import theme
from desktop.ui.widgets import (
    Card,
    Empty,
    IconLabel,
    Page,
    TitleLine,
    button,
    column,
    label,
    number_label,
    page_layout,
    row,
    set_text,
)

_Index = QModelIndex | QPersistentModelIndex
SORT_ROLE = Qt.ItemDataRole.UserRole


class LinksModel(QAbstractTableModel):
    """The other members, one row each; `SORT_ROLE` gives what a column sorts by."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[MemberRow, ...] = ()
        self._paths: dict[str, PathRow] = {}
        self.titles = (self.tr("Member"), self.tr("Id"), self.tr("Link"), self.tr("Round trip"), self.tr("Path"),
                       self.tr("Found here"), self.tr("Found there"), self.tr("Sent"), self.tr("Received"),
                       self.tr("Last heard"))
        ways = self.tr("host: an address of the computer itself. srflx, prflx: one that a server or the other side "
                       "saw. relay: one at a TURN server.")
        self.notes = {4: self.tr("From this computer to the member’s. {ways}").format(ways=ways),
                      5: self.tr("Addresses that this computer offers, by kind. {ways}").format(ways=ways),
                      6: self.tr("How many addresses the member offers.")}

    def show_rows(self, rows: tuple[MemberRow, ...], paths: tuple[PathRow, ...]) -> None:
        """Show these; the table is reset only when members come or go."""
        same = [row.peer for row in rows] == [row.peer for row in self._rows]
        if not same:
            self.beginResetModel()
        self._rows = rows
        self._paths = {path.peer: path for path in paths}
        if not same:
            self.endResetModel()
        elif rows:
            self.dataChanged.emit(self.index(0, 0), self.index(len(rows) - 1, len(self.titles) - 1))

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return len(self.titles)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self.titles[section]
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.ToolTipRole:
            return self.notes.get(section)
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.TextAlignmentRole:
            return int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        return None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        member = self._rows[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return self._texts(member)[index.column()]
        if role == SORT_ROLE:
            return self._keys(member)[index.column()]
        if role == Qt.ItemDataRole.ForegroundRole and index.column() == 2 and member.link == "lost":
            return theme.color("bad")
        return None

    def _texts(self, member: MemberRow) -> tuple[str, ...]:
        path = self._paths.get(member.peer, PathRow(peer=member.peer))
        return (member.name, member.peer[:8], self._link(member), milliseconds(member.rtt_ms), path.path or DASH,
                path.gathered or DASH, str(path.remote or DASH), size(member.sent_bytes), size(member.received_bytes),
                self.tr("{time} ago").format(time=duration(member.last_seen_s)))

    def _keys(self, member: MemberRow) -> tuple[object, ...]:
        path = self._paths.get(member.peer, PathRow(peer=member.peer))
        return (member.name.casefold(), member.peer, member.link,
                member.rtt_ms if member.rtt_ms is not None else 1e12, path.path, path.gathered, path.remote,
                float(member.sent_bytes), float(member.received_bytes), member.last_seen_s)

    def _link(self, member: MemberRow) -> str:
        way = {"direct": self.tr("direct"), "relay": self.tr("relayed"), "connecting": self.tr("connecting…"),
               "lost": self.tr("lost")}.get(member.link, member.link)
        return with_lanes(way, member)


class PathsCard(Card):
    """The verdict on the ways in, in words; the facts behind it on demand; and a button to check again."""

    def __init__(self, page: Page) -> None:
        super().__init__(padding=16, spacing=8)
        self.icon = IconLabel("info", "quiet")
        self.title = label("", "emphasis")
        self.at = number_label("", "quiet")
        self.check = button(self.tr("Check"), lambda: page.send(CheckPaths()))
        self.facts = button(self.tr("Details"), self._toggle, "link")
        self.text = label("", "body", wrap=True)
        self.details = label("", "quiet", wrap=True)
        for each in (self.text, self.details):
            each.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.details.setAccessibleName(self.tr("Facts behind the verdict"))
        self.details.hide()
        words = row(self.icon, self.title, self.at, 1, self.facts, self.check)
        self.body.addLayout(words)
        self.body.addLayout(column(self.text, self.details, spacing=8))

    def show_view(self, view: PathsView) -> None:
        """Show a verdict. The last one stands until the next is there."""
        checking = view.state == "checking"
        self.check.setEnabled(not checking)
        set_text(self.check, self.tr("Checking…") if checking else self.tr("Check again") if view.severity
                 else self.tr("Check"))
        self.check.setAccessibleName(self.check.text())
        words = {"good": self.tr("good"), "info": self.tr("note"), "care": self.tr("take care"), "bad": self.tr("bad")}
        self.icon.show_severity(view.severity or "info", words.get(view.severity, self.tr("not known")))
        set_text(self.title, view.title or self.tr("Who can reach this computer?"))
        set_text(self.at, self.tr("checked at {time}").format(time=view.at) if view.at else "")
        set_text(self.text, view.text or self.tr("This is found out when a room is opened or joined."))
        set_text(self.details, "\n".join(view.details))
        self.facts.setVisible(bool(view.details))
        self.details.setVisible(bool(view.details) and self.facts.text() == self.tr("Hide details"))

    def _toggle(self) -> None:
        show = self.details.isHidden()
        self.details.setVisible(show)
        set_text(self.facts, self.tr("Hide details") if show else self.tr("Details"))
        self.facts.setAccessibleName(self.facts.text())


class NetworkPage(Page):
    """The verdict, addresses and links."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()
        self.head = TitleLine(self.tr("Network"), self.tr("from window to window, encrypted"))
        self.addresses = label("", "body", wrap=True)
        self.addresses.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.addresses.setAccessibleName(self.tr("Addresses of this computer"))
        here = Card(padding=16, spacing=4)
        here.body.addWidget(label(self.tr("Addresses of this computer"), "strong"))
        here.body.addWidget(self.addresses)
        self.paths = PathsCard(self)
        self.model = LinksModel()
        self._sorted = QSortFilterProxyModel()
        self._sorted.setSourceModel(self.model)
        self._sorted.setSortRole(SORT_ROLE)
        self.table = self._table()
        self.empty = Empty("network", self.tr("No links yet"),
                           self.tr("In a room, each member has a row here: how it is reached, how fast, how much."),
                           button(self.tr("Go to Room"), lambda: self.send(GoTo("room")), "primary"))
        self._links = Card(padding=16, spacing=8)
        self._links.body.addLayout(row(label(self.tr("Links to members"), "strong"), 1))
        self._links.body.addWidget(self.table, 1)
        layout = page_layout(self)
        layout.addWidget(self.head)
        layout.addWidget(self.paths)
        layout.addWidget(here)
        layout.addWidget(self._links, 1)
        layout.addWidget(self.empty, 1)

    def show_state(self, state: WindowState) -> None:
        shown = (state.addresses, state.session.members, state.preflight, state.paths)
        if shown == self._shown:
            return
        self._shown = shown
        self.paths.show_view(state.preflight)
        set_text(self.addresses, " · ".join(state.addresses) if state.addresses
                 else self.tr("No address on a network that others could reach."))
        others = tuple(member for member in state.session.members if not member.you)
        self._links.setVisible(bool(others))
        self.empty.setVisible(not others)
        self.model.show_rows(others, state.paths)

    def _table(self) -> QTableView:
        table = QTableView()
        table.setModel(self._sorted)
        table.setSortingEnabled(True)
        table.sortByColumn(0, Qt.SortOrder.AscendingOrder)
        table.setAccessibleName(self.tr("Links to members"))
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.setTabKeyNavigation(False)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        table.verticalHeader().hide()
        table.verticalHeader().setDefaultSectionSize(theme.px(34))
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setMinimumSectionSize(theme.px(60))
        return table
