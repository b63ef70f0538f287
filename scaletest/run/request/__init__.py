"""What a command line asks for, read and examined alike whatever the command is."""
