"""The loops over machines and needs: one source, compiled if `make` has built them here, plain Python otherwise."""
