"""The service: a REST interface and a page, on the user's own machine (extra ``serve``)."""
