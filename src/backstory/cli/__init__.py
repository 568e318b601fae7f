"""The `backstory` command. Each module adds the commands of one noun."""
