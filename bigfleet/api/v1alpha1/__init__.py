"""Generated from the .proto files beside this one (`make proto`)."""
