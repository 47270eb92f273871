"""The registry of file formats, one file per format.

Libraries decode; the code here adds what they lack: sizes are checked before any pixel is decoded,
nothing is unpacked beyond what a header announces, and 16-bit colours are kept.
"""

from sitta.data.formats.base import Format
from sitta.data.formats.dicom import Dicom
from sitta.data.formats.nifti import Nifti
from sitta.data.formats.raster import Bmp, Gif, Jpeg, Png
from sitta.data.formats.tiff import Tiff

# In the order of messages. The last that matches a file's first bytes wins: the preamble of a
# DICOM file may hold the opening of another format.
FORMATS: dict[str, Format] = {
    each.name: each for each in (Png(), Jpeg(), Gif(), Bmp(), Tiff(), Nifti(), Dicom())
}

__all__ = ["FORMATS", "Format"]
