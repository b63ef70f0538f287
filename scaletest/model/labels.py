"""Labels of Nodes as the harness spells them: a slip in BigFleet's spelling must not change what is expected of it."""

INSTANCE_TYPE_KEY = "node.kubernetes.io/instance-type"
ZONE_KEY = "topology.kubernetes.io/zone"
RACK_KEY = "topology.bigfleet/rack"
