"""Numbers that round nothing, and arrays of them, for the device `exact`."""
