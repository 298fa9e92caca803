"""What all scripts that take records share: how a command is run, in which order, what is kept, and how a limit is judged."""
