"""The one long-lived process."""
