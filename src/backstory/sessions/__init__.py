"""Sessions: the states of a conversation and the moves between them."""
