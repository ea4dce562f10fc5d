"""Links: round trip, tolerance of how they are pasted, and a precise reason for each that is wrong."""

from __future__ import annotations

import contextlib

import pytest
import segno
from hypothesis import example, given
from hypothesis import strategies as st

from desktop.errors import AddressError, LinkError
from desktop.rooms.invite import OPTION_KEYS, Invite, join_address, split_address

KEY = bytes(range(16))
TEXT_KEY = "aaaqeayeaudaocajbifqydiob4"  # base32 (RFC 4648) of 00 01 .. 0f, from `base32` of GNU coreutils
LINK = f"peerloom://join?room=maple-otter&key={TEXT_KEY}&at=192.168.1.20:41234&at=[fd00::2]:41234&task=digits"
INVITE = Invite("maple-otter", KEY, ("192.168.1.20:41234", "[fd00::2]:41234"), {"task": "digits"})

words = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,2}", fullmatch=True)
hosts = st.one_of(
    st.ip_addresses(v=4).filter(lambda ip: not ip.is_unspecified and not ip.is_multicast).map(str),
    st.ip_addresses(v=6).filter(lambda ip: not ip.is_unspecified and not ip.is_multicast).map(str),
    st.sampled_from(["localhost", "anns-laptop.local", "a.b-c.example"]),
)
addresses = st.builds(join_address, hosts, st.integers(1, 65535))
values = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="<>\"'`@|"), min_size=1,
                 max_size=40).filter(lambda text: "turn" not in text)
invites = st.builds(Invite, words, st.binary(min_size=16, max_size=16),
                    st.lists(addresses, min_size=1, max_size=16).map(tuple),
                    st.dictionaries(st.sampled_from(OPTION_KEYS), values))


def test_link_is_as_written_by_hand() -> None:
    assert INVITE.link() == LINK
    assert Invite.parse(LINK) == INVITE


@given(invites)
def test_round_trip(invite: Invite) -> None:
    link = invite.link()
    assert link.isascii()
    assert Invite.parse(link) == invite


@given(st.one_of(st.text(), st.binary().map(lambda raw: "peerloom://join?" + raw.decode("latin-1")),
                 st.lists(st.tuples(st.sampled_from(["room", "key", "at", "task", "turn", "ice", "", "x"]), st.text()))
                 .map(lambda pairs: "peerloom://join?" + "&".join(f"{name}={value}" for name, value in pairs))))
@example("peerloom://join?room=%ff")
@example("peerloom://join?at=1.2.3.4:99999999999999999999")
@example(LINK.replace("at=1", "at=١"))
def test_whatever_the_text_nothing_but_a_link_error(text: str) -> None:
    with contextlib.suppress(LinkError):
        Invite.parse(text)


@given(st.data())
def test_a_damaged_link_gives_nothing_but_a_link_error(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(LINK) - 1))
    damaged = LINK[:at] + data.draw(st.text(max_size=3)) + LINK[at + data.draw(st.integers(0, 9)):]
    with contextlib.suppress(LinkError):
        Invite.parse(damaged)


@pytest.mark.parametrize("pasted", [
    f"  {LINK}\n", f"<{LINK}>", f"“{LINK}”", f"'{LINK}'", f"`{LINK}`", f"«{LINK}»",
    LINK[:30] + "\n" + LINK[30:70] + "\r\n  " + LINK[70:],  # wrapped by a mail program
    "> " + LINK[:50] + "\n> " + LINK[50:],  # quoted by one
    f"Join my room:\n{LINK}", LINK.replace("&", "&amp;"), LINK.replace("[", "%5B").replace("]", "%5D"),
    LINK.replace("join?", "join/?"), LINK.replace("peerloom://", "Peerloom://"), "\ufeff\u200b" + LINK + "\u00a0",
    LINK.replace(TEXT_KEY, TEXT_KEY.upper()), LINK.replace("maple-otter", "Maple-Otter"),
])
def test_pasted_as_people_and_programs_do(pasted: str) -> None:
    assert Invite.parse(pasted) == INVITE


@pytest.mark.parametrize(("text", "reason"), [
    ("", "it is empty"),
    ("hello", "it has no peerloom://"),
    ("https://example.org/join?room=a", "it has no peerloom://"),
    ("peerloom://join", "nothing follows its beginning"),
    ("peerloom://run?room=a", "it asks to “run”"),
    (LINK.replace("&key=" + TEXT_KEY, ""), "it has no key"),
    (LINK.replace("room=maple-otter&", ""), "it has no room"),
    (LINK[: LINK.index("&at=")], "it names no address"),
    (LINK.replace("maple-otter", "maple_otter"), "“maple_otter” is not the name of a room"),
    (LINK.replace("room=maple-otter", "room="), "“” is not the name of a room"),
    (LINK.replace(TEXT_KEY, TEXT_KEY[:-4]), "its key has 22 characters instead of 26"),
    (LINK.replace(TEXT_KEY, TEXT_KEY[:-1] + "1"), "its key is damaged"),
    (LINK.replace("192.168.1.20:41234", "192.168.1.20"), "“192.168.1.20” is not an address: the port is missing"),
    (LINK.replace("192.168.1.20:41234", "192.168.1.20:70000"), "the port must be from 1 to 65535"),
    (LINK.replace("192.168.1.20:41234", "192.168.1.520:1"), "it is not an IPv4 address"),
    (LINK.replace("192.168.1.20:41234", "192.168.1:1"), "it is not an IPv4 address"),
    (LINK.replace("192.168.1.20:41234", "0.0.0.0:1"), "it stands for no single computer"),
    (LINK.replace("[fd00::2]", "fd00::2"), "IPv6 addresses need brackets"),
    (LINK.replace("[fd00::2]", "[fd00::2::3]"), "it is not an IPv6 address"),
    (LINK.replace("[fd00::2]", "[fe80::1%25eth0]"), "it is not an IPv6 address"),
    (LINK.replace("192.168.1.20:41234", "a_b:1"), "characters that names of computers cannot have"),
    (LINK + "&at=1.2.3.4:5" * 15, "more than 16 addresses"),
    (LINK + "&turn=turn:a|b|c", "passwords never travel in links"),
    (LINK + "&ice=turn:a:3478", "passwords never travel in links"),
    (LINK + "&relay=wss://me:secret@example.org", "passwords never travel in links"),
    (LINK + "&exec=rm", "“exec” is not known"),
    (LINK + "&batch=", "batch has no value"),
    (LINK + "&batch", "“batch” has no value"),
    (LINK + "&task=images", "it has task twice"),
    (LINK + "&room=oak-yak", "it has room twice"),
    (LINK + "&", "two & in a row, or one at its end"),
    (LINK + "&lr=%ff", "“lr=%ff” is not text"),
    (LINK + "&lr=0%201", "lr has white space"),
    (LINK + "&lr=" + "1" * 600, "lr is longer than 512 characters"),
    ("peerloom://join?" + "a" * 20_000, "it is far too long"),
])
def test_each_fault_has_its_reason(text: str, reason: str) -> None:
    with pytest.raises(LinkError) as caught:
        Invite.parse(text)
    assert reason in caught.value.sentence


def test_new_keys_are_their_own() -> None:
    keys = {Invite.new("oak-yak", ("127.0.0.1:1",)).key for _ in range(50)}
    assert len(keys) == 50
    assert {len(key) for key in keys} == {16}


def test_fits_a_qr_code_that_a_phone_reads_from_a_screen() -> None:
    whole = Invite("chamomile-sandpiper", KEY, ("192.168.178.120:41234", "10.8.0.12:41234",
                   "[fd12:3456:789a:1:a1b2:c3d4:e5f6:7890]:41234"), {"task": "digits"})
    code = segno.make(whole.link(), error="m", micro=False)
    assert code.version <= 11  # 61 modules a side


@pytest.mark.parametrize(("text", "parts"), [
    ("127.0.0.1:1", ("127.0.0.1", 1)), ("[::1]:65535", ("::1", 65535)), ("localhost:80", ("localhost", 80)),
])
def test_addresses_split(text: str, parts: tuple[str, int]) -> None:
    assert split_address(text) == parts
    assert join_address(*parts) == text


@given(st.text())
def test_an_address_that_is_none_gives_only_its_own_error(text: str) -> None:
    with contextlib.suppress(AddressError):
        split_address(text)
