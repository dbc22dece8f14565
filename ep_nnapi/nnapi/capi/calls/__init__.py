"""Implementations of the C API functions, one file per kind of object.

Each function takes the C arguments (handles as integers) and raises Refused or RuntimeFailure on
failure. Names are the NDK's without the prefix, so no mapping of names is needed.
"""
