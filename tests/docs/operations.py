"""What runs the commands of the pages for those who operate a fleet."""
