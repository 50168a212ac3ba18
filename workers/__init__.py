"""Controllers to deploy as they are; they use the public names of distq only."""
