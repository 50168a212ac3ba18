"""What an item costs, in numbers that can be counted: no second is measured here."""
