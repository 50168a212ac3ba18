"""The command ``distq init``: a controller to begin with."""
