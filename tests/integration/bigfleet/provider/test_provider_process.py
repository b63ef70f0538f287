"""The provider as a process of its own."""

import asyncio
import signal
import sys
from pathlib import Path

import aiohttp
import grpc
import msgspec

from bigfleet.api.v1alpha1 import phonehome_pb2, phonehome_pb2_grpc
from tests.integration.players.apiserver import free_ports
from tests.integration.players.provider_client import CLUSTER, FLEET, eventually

PROGRAM = """
import sys
from pathlib import Path
from bigfleet.process import daemon
from bigfleet.provider.fake.server import ProviderOptions, serve

listen, metrics_addr, fleet = sys.argv[1:]
options = ProviderOptions(listen=listen, metrics_addr=metrics_addr, fleet=Path(fleet), plaintext=True)
daemon.run("provider", lambda: serve(options))
"""


async def test_it_serves_until_sigterm_and_then_ends_cleanly_whoever_is_connected(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.json"
    fleet.write_bytes(msgspec.json.encode(FLEET))
    port, metrics_port = free_ports(2)
    arguments = (f"127.0.0.1:{port}", f"127.0.0.1:{metrics_port}", str(fleet))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with aiohttp.ClientSession() as http, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:

            async def scraped(text: str) -> bool:
                try:
                    async with http.get(f"http://127.0.0.1:{metrics_port}/metrics") as answer:
                        return text in await answer.text()
                except aiohttp.ClientConnectionError:
                    return False

            await eventually(lambda: scraped('bigfleet_provider_machines{state="Idle"} 2.0'))
            stream = phonehome_pb2_grpc.PhoneHomeStub(channel).Report()
            await stream.write(phonehome_pb2.ReadyReport(cluster_id=CLUSTER, full=True))
            await eventually(lambda: scraped("bigfleet_provider_phone_home_streams 1.0"))

            process.send_signal(signal.SIGTERM)
            output, _ = await asyncio.wait_for(process.communicate(), timeout=10)
            assert process.returncode == 0, output.decode()
            assert "Traceback" not in output.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
