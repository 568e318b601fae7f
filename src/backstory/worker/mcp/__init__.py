"""The Model Context Protocol: the tools that an agent calls, and the SDK around them."""
