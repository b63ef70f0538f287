"""The provider's side of the contract: the kit that any provider stands on, and the fake one of the scale test."""
