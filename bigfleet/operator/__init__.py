"""The cluster's side of BigFleet: demand up, node states down, drains carried out. Shards never dial it."""

from bigfleet.operator.options import OperatorOptions
from bigfleet.operator.process import serve

__all__ = ["OperatorOptions", "serve"]
