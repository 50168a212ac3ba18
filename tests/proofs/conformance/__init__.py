"""What client-go and controller-runtime promise, and which tests show it of distq."""
