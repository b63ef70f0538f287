"""The fake provider: machines in virtual racks, asynchronous, with faults that can be set, and a ledger."""
