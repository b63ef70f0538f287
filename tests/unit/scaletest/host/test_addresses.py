"""Loopback networks are claimed by one host each; pod addresses last."""

import socket

import pytest

from scaletest.components import apiserver
from scaletest.errors import HostError
from scaletest.host.addresses import Network, PodAddresses, claim_network

# Beyond the networks that hosts take, so a test never meets a real one.
FIRST, SECOND = 251, 252


def test_a_claimed_network_is_skipped_until_it_is_given_back() -> None:
    with claim_network([FIRST, SECOND]).socket as held:
        assert held.getsockname()[0] == f"127.{FIRST}.0.1"
        other = claim_network([FIRST, SECOND])
        assert other.network == Network(SECOND)
        other.socket.close()
    again = claim_network([FIRST, SECOND])
    again.socket.close()
    assert again.network == Network(FIRST)


def test_no_network_left_is_an_error() -> None:
    with claim_network([FIRST]).socket, pytest.raises(HostError, match="every loopback network"):
        claim_network([FIRST])


def test_a_port_that_is_taken_everywhere_is_named() -> None:
    with (
        socket.create_server((f"127.{FIRST}.0.1", apiserver.PORT)),
        pytest.raises(HostError, match=f"port {apiserver.PORT} is taken") as refused,
    ):
        claim_network([FIRST])
    assert "0.0.0.0:6443" in refused.value.hint


def test_a_pod_keeps_its_address_and_shares_it_with_nobody() -> None:
    addresses = PodAddresses(Network(64))
    first, second = addresses.of("demo/web-0"), addresses.of("demo/web-1")
    assert (first, second) == ("127.64.1.1", "127.64.1.2")
    assert addresses.of("demo/web-0") == first


def test_an_address_that_a_pod_already_has_is_kept() -> None:
    addresses = PodAddresses(Network(64))
    addresses.learn("demo/old", "127.64.1.1")
    assert addresses.of("demo/old") == "127.64.1.1"
    assert addresses.of("demo/new") == "127.64.1.2"


def test_pod_addresses_go_on_in_the_next_subnet_and_end_before_the_services() -> None:
    network = Network(64)
    assert network.pod_address(254) == "127.64.2.1"
    assert network.pod_address(127 * 254 - 1) == "127.64.127.254"
    with pytest.raises(HostError, match="pod addresses"):
        network.pod_address(127 * 254)
