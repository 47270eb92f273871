"""One file a format: read to an ``Image``, and write masks where the format can hold them."""
