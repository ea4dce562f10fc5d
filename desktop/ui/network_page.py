"""The Network page: at which addresses this computer is reached, and how each member is."""

from __future__ import annotations

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QSortFilterProxyModel, Qt
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from desktop.intents import GoTo
from desktop.state import MemberRow, WindowState
from desktop.ui.formats import DASH, duration, milliseconds, size
from desktop.ui.theme import theme
from desktop.ui.widgets import Card, Empty, Page, TitleLine, button, label, page_layout, row, set_text

_Index = QModelIndex | QPersistentModelIndex
SORT_ROLE = Qt.ItemDataRole.UserRole


class LinksModel(QAbstractTableModel):
    """The other members, one row each; `SORT_ROLE` gives what a column sorts by."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[MemberRow, ...] = ()
        self.titles = (self.tr("Member"), self.tr("Link"), self.tr("Round trip"), self.tr("Sent"), self.tr("Received"),
                       self.tr("Last heard"), self.tr("Path"), self.tr("Id"))

    def show_rows(self, rows: tuple[MemberRow, ...]) -> None:
        """Show these; the table is reset only when members come or go."""
        same = [row.peer for row in rows] == [row.peer for row in self._rows]
        if not same:
            self.beginResetModel()
        self._rows = rows
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
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.TextAlignmentRole:
            return int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        return None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        member = self._rows[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return self._texts(member)[index.column()]
        if role == SORT_ROLE:
            return self._keys(member)[index.column()]
        if role == Qt.ItemDataRole.ForegroundRole and index.column() == 1 and member.link == "lost":
            return theme.color("bad")
        return None

    def _texts(self, member: MemberRow) -> tuple[str, ...]:
        return (member.name, self._link(member.link), milliseconds(member.rtt_ms), size(member.sent_bytes),
                size(member.received_bytes), self.tr("{time} ago").format(time=duration(member.last_seen_s)),
                member.candidates or DASH, member.peer[:8])

    def _keys(self, member: MemberRow) -> tuple[object, ...]:
        return (member.name.casefold(), member.link, member.rtt_ms if member.rtt_ms is not None else 1e12,
                float(member.sent_bytes), float(member.received_bytes), member.last_seen_s, member.candidates,
                member.peer)

    def _link(self, link: str) -> str:
        return {"direct": self.tr("direct"), "relay": self.tr("relayed"), "connecting": self.tr("connecting…"),
                "lost": self.tr("lost")}.get(link, link)


class NetworkPage(Page):
    """Addresses and links."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()
        self.head = TitleLine(self.tr("Network"), self.tr("straight from window to window, encrypted"))
        self.addresses = label("", "body", wrap=True)
        self.addresses.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.addresses.setAccessibleName(self.tr("Addresses of this computer"))
        here = Card(padding=16, spacing=4)
        here.body.addWidget(label(self.tr("This computer"), "strong"))
        here.body.addWidget(self.addresses)
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
        layout.addWidget(here)
        layout.addWidget(self._links, 1)
        layout.addWidget(self.empty, 1)

    def show_state(self, state: WindowState) -> None:
        shown = (state.addresses, state.session.members)
        if shown == self._shown:
            return
        self._shown = shown
        set_text(self.addresses, " · ".join(state.addresses) if state.addresses
                 else self.tr("No address on a network that others could reach."))
        others = tuple(member for member in state.session.members if not member.you)
        self._links.setVisible(bool(others))
        self.empty.setVisible(not others)
        self.model.show_rows(others)

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
