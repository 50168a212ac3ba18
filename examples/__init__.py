"""Controllers that people run, written anew on distq; see README.md."""
