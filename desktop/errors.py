"""Every error a person can meet: the class docstring is the sentence they read."""

from __future__ import annotations

import inspect


class PeerloomError(Exception):
    """Something went wrong: {what}."""

    def __init__(self, **details: object) -> None:
        self.details = details
        super().__init__(self.sentence)

    @property
    def sentence(self) -> str:
        """The class docstring with the details filled in: what happened, where, and what to do."""
        return inspect.cleandoc(type(self).__doc__ or "").replace("\n", " ").format(**self.details)


# -- options and settings ---------------------------------------------------------------------------


class OptionError(PeerloomError):
    """{key}: “{value}” is not valid. Allowed: {allowed}."""


class UnknownOptionError(PeerloomError):
    """{key} is not an option of Peerloom. Run with --help for the list."""


class RepeatedOptionError(PeerloomError):
    """{key} is given twice. Give it once."""


class MissingValueError(PeerloomError):
    """{key} needs a value. Allowed: {allowed}."""


class OptionsClashError(PeerloomError):
    """{key} and {other} cannot go together: {why}."""


class OptionNeedsError(PeerloomError):
    """{key} works only together with {other}."""


class UnknownSettingError(PeerloomError):
    """{key} is not a setting of Peerloom."""


class SettingsFileError(PeerloomError):
    """The settings in {place} cannot be read: {why}. The file is kept as {kept}, and the defaults are used."""


class SettingsSaveError(PeerloomError):
    """The settings could not be saved to {place}: {why}. They hold until the window closes."""


class FolderError(PeerloomError):
    """{place} cannot be used as a folder: {why}. Choose another with --profile."""


class ReportError(PeerloomError):
    """The report cannot be written to {place}: {why}. Choose another file."""


class NoDisplayError(PeerloomError):
    """There is no screen to open a window on. Log in to a desktop, or set QT_QPA_PLATFORM=offscreen."""


# -- rooms ------------------------------------------------------------------------------------------


class LinkError(PeerloomError):
    """This is not a link to a room: {why}. Ask the host to copy the link again."""


class RoomNotFoundError(PeerloomError):
    """No room answers at {address}. Ask the host whether its window is open and on the same network."""


class RoomRefusedError(PeerloomError):
    """The room did not let you in: {why}."""


class CodeRefusedError(PeerloomError):
    """The code did not match, and each code is good for one try. Ask the host for the new code."""


class NotNearbyError(PeerloomError):
    """The room {room} is not announced on this network. Enter the address that its host's window shows, too."""


class RoomFirstError(PeerloomError):
    """This window is in a room. Leave it first."""


class BusyError(PeerloomError):
    """That cannot be changed while training is under way. Stop it first."""


class SetupFirstError(PeerloomError):
    """This is not possible yet. {missing}"""


class PortInUseError(PeerloomError):
    """Port {port} is already used by another program. Choose another port, or 0 for any free one."""


class VersionError(PeerloomError):
    """{older} uses an older version of Peerloom ({old}) than {newer} ({new}). Update the older one first."""


class AddressError(PeerloomError):
    """“{address}” is not the address of a room: {why}. It looks like 192.168.1.20:41234."""


class CodeFormError(PeerloomError):
    """“{code}” is not a code of a room: {why}. A code looks like maple-otter-amber-falcon-42."""


class RoomOpenError(PeerloomError):
    """The room could not be opened: {why}. Choose another port, or 0 for any free one."""


class NearbyError(PeerloomError):
    """Rooms nearby cannot be announced or seen: {why}. Joining by link, QR or code and address still works."""


class SealError(PeerloomError):
    """A message of another member could not be trusted and was dropped: {why}."""


# -- peers ------------------------------------------------------------------------------------------


class MessageError(PeerloomError):
    """A message could not be read: {why}."""


class NoNetworkError(PeerloomError):
    """This computer has no network address that others could reach. Connect it to a network."""


class SignalError(PeerloomError):
    """A message about connecting to {peer} could not be used: {why}."""


class ProtocolError(PeerloomError):
    """{peer} sent something that this version of Peerloom does not understand: {why}. The link to it was closed."""


class UnreachableError(PeerloomError):
    """{peer} cannot be reached ({why}); {others}. {next}"""


class AloneError(PeerloomError):
    """{peer} cannot be reached ({why}), and nobody else is connected. Either it is gone, or a firewall, a guest
    network or a symmetric NAT keeps the two computers apart. {next}"""


class PeerLostError(PeerloomError):
    """{peer} was lost ({why}); {others}. {next}"""


class RoomLostError(PeerloomError):
    """The way into the room is closed ({why}). {rest}"""


class RoomFullError(PeerloomError):
    """The room has more than {limit} members; {peer} was left out."""


# -- the way into the network, before there is any peer ---------------------------------------------


class NoWayInError(PeerloomError):
    """This computer has no network address that others could reach: it is offline, or a VPN, a firewall or a rule of
    whoever manages it keeps programs off the network. Connect it to a network, then check again."""


class SameNetworkError(PeerloomError):
    """Members on the same network can connect; members elsewhere cannot, as no STUN server answers. This computer is
    not on the internet, or a firewall blocks UDP."""


class NoStunError(PeerloomError):
    """Members on the same network can connect; members elsewhere cannot, as no STUN server is set. Enter one in the
    settings."""


class SymmetricNatError(PeerloomError):
    """Members on the same network can connect. Those elsewhere need help: the router here shows each of them another
    address (symmetric NAT), so that they cannot find this computer. Enter a TURN server in the settings."""


class RelayMissingError(PeerloomError):
    """Nobody can connect: only TURN servers may be used, and none is set. Enter one in the settings, or allow direct
    ways there."""


class PathCheckLateError(PeerloomError):
    """The check had not ended after {limit} s. It got so far: {steps}. Rooms still work where a way is open."""


class TurnPasswordError(PeerloomError):
    """The TURN server {server} answers, but refuses the name or the password. Correct them in the settings."""


class TurnSilentError(PeerloomError):
    """The TURN server {server} does not answer: its address or port is wrong, or a firewall is in between. Correct it
    in the settings."""


class TurnClosedError(PeerloomError):
    """No TURN server runs at {server}: the computer there says that the port is closed. The port is wrong, or the
    server is not started. Correct it in the settings."""


class TurnNameError(PeerloomError):
    """The TURN server {server} cannot be found: there is no answer to its name. Correct its address in the settings."""


class TurnUnusableError(PeerloomError):
    """The TURN server {server} cannot be used: servers are reached over IPv4 so far, and TLS only over TCP. Enter
    another in the settings."""


class TurnRefusedError(PeerloomError):
    """The TURN server {server} answers, but gives no relay address ({why}). Ask whoever runs it."""


# -- tasks and data ---------------------------------------------------------------------------------


class DataError(PeerloomError):
    """{place}: {why}. {remedy}"""


class NoImagesError(DataError):
    """No pictures in {place}. Choose a folder that holds one folder of pictures for each class."""


class NoFolderError(DataError):
    """{place} is not a folder, or no longer there. Choose a folder that holds one folder of pictures for each class."""


class NoClassFoldersError(DataError):
    """The pictures in {place} lie in no class folders. Put those of each class into a folder named after the class."""


class TooLittleDataError(DataError):
    """Too little data in {place}: {have}, at least {need} are needed."""


class BrokenImageError(DataError):
    """{place} cannot be opened as a picture: {why}. It is skipped."""


class PictureError(DataError):
    """{place} cannot be opened as a picture: {why}. Choose another one."""


class NotTextError(DataError):
    """{place} cannot be read as plain text: {why}. It is skipped."""


class NoTextError(DataError):
    """No text in {place}. Choose files of plain text (.txt, .md), or a folder that holds some."""


class EncodingError(DataError):
    """Text cannot be read as “{encoding}”: that is not the name of an encoding. Choose for example utf-8 or cp1252."""


class ClassesDifferError(DataError):
    """These classes are not part of the room: {unknown}. The room has: {known}.
    Rename the folders, or leave them out."""


class TaskError(PeerloomError):
    """The task cannot be used: {why}."""


class TaskFileError(PeerloomError):
    """The task file {place} cannot be used: {why}. Nothing was changed."""


class TaskSaveError(PeerloomError):
    """The task could not be saved to {place}: {why}. Choose another folder."""


# -- training and models ----------------------------------------------------------------------------


class TrainingError(PeerloomError):
    """Training stopped: {why}. The weights of the last finished round are kept."""


class MemoryShortError(PeerloomError):
    """Training stopped: this computer's memory does not hold the model {model} ({parameters} weights) with one sample
    at a time. Choose a smaller model, or smaller samples. The weights of the last finished round are kept.
    """


class ModelFileError(PeerloomError):
    """{place} is not a model that Peerloom can read: {why}."""


class SaveError(PeerloomError):
    """The model could not be saved to {place}: {why}. It is still in memory: choose another folder."""
