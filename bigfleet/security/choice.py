"""TLS, or plaintext where the user asks for it: never plaintext by default."""

from pathlib import Path


def check_choice(tls_dir: Path | None, plaintext: bool) -> None:
    """Raise ValueError unless exactly one of the two was chosen."""
    if plaintext == bool(tls_dir):
        raise ValueError("give one of --tls-dir (see `bigfleet certs`) and --plaintext")
