"""Published results that stand beside ours."""
