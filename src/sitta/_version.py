"""The one place that holds the version, and the name under which Sitta is installed."""

__version__ = "0.2.0"
DISTRIBUTION = "sitta-seg"  # on the package index, where "sitta" is another project
