"""What a new user meets first: the install line, a mistake in the address, a closed window."""
