"""Pure tensor functions: no files, no models, no screens."""
