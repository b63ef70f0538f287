"""What needs no fleet: `simulate`, and old evidence that is judged again (`check`) or looked at (`replay`)."""
