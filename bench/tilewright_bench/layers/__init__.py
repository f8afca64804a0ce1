"""`tilewright layers`: a network layer by layer, against what the machine can do and beside other engines."""
