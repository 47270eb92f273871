"""Small tools for every layer: files, names, settings, devices, threads, processes, Ray."""
