"""The functions of the C API, a file for each kind of object.

Each takes what C passes (handles as numbers) and raises Refused, or RuntimeFailure, for anything
but success. Names are the NDK's without the prefix, so that nothing maps one to the other.
"""
