"""Pure types shared by all of BigFleet: quantities and vectors, requirements, needs, machines, penalties. No I/O."""
