"""What BigFleet says on the wire and stores in a cluster: protos, their generated code, CRDs."""
