"""Folders with a prepared model and what it takes to run it on a phone: `bundle`."""
