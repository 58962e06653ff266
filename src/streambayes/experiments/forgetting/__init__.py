"""What policies make of streams whose truth is known."""
