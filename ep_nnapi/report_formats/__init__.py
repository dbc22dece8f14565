"""Reports for other tools: graphs of Model Explorer, and models for Netron."""
