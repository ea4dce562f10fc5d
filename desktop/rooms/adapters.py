"""This computer's own addresses, the most useful ones first."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

import ifaddr

MOST = 6  # more would only make the QR code larger
# Networks inside this computer, which nobody else can reach. (VPNs are not among them: others may be in the same one.)
_INTERNAL = re.compile(r"docker|veth|br-[0-9a-f]{12}|virbr|cni|flannel|podman|lxc|lxd|vmnet|vboxnet")


def local_addresses(loopback: bool = False) -> tuple[str, ...]:
    """IP addresses at which others could reach this computer: IPv4 first, then IPv6, then self-assigned ones.

    127.0.0.1 alone with `loopback`, and when there is no other: a room on one computer works without a network.
    """
    if loopback:
        return ("127.0.0.1",)
    ranked: list[tuple[int, str]] = []
    for adapter in ifaddr.get_adapters():
        if _INTERNAL.match(adapter.name):
            continue
        for entry in adapter.ips:
            text = entry.ip if isinstance(entry.ip, str) else entry.ip[0]
            rank = _rank(ipaddress.ip_address(text.partition("%")[0]))
            if rank is not None:
                ranked.append((rank, text))
    ranked.sort(key=lambda each: each[0])
    return tuple(dict.fromkeys(text for _, text in ranked))[:MOST] or ("127.0.0.1",)


def near_first(addresses: Iterable[str]) -> list[str]:
    """Somebody's addresses, first those in a network that this computer is in as well; IPv4 before IPv6."""
    networks = _own_networks()

    def far(text: str) -> tuple[bool, int]:
        ip = ipaddress.ip_address(text.partition("%")[0])
        return not any(ip in network for network in networks), ip.version

    return sorted(addresses, key=far)


def is_near(host: str) -> bool:
    """Whether a host is on a network like this computer's own, by its address: private, or in one of its networks.

    A name counts as near when only the own network could know it: it has no dot, or ends in .local.
    """
    try:
        ip = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return "." not in host or host.lower().endswith(".local")
    return not ip.is_global or any(ip in network for network in _own_networks())


def _own_networks() -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return [ipaddress.ip_network(f"{text}/{entry.network_prefix}", strict=False)
            for adapter in ifaddr.get_adapters() for entry in adapter.ips
            for text in [entry.ip if isinstance(entry.ip, str) else entry.ip[0].partition("%")[0]]]


def _rank(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int | None:
    if ip.is_loopback or ip.is_unspecified or ip.is_multicast:
        return None
    if ip.version == 4:
        return 2 if ip.is_link_local else 0
    # A link-local IPv6 address means nothing without the number that each computer gives its own adapter.
    return None if ip.is_link_local else 1
