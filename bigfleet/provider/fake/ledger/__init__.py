"""The provider's ledger: what was asked, answered, struck and seen Ready, kept outside the kit, which is tested."""
