"""Azure itself: the only package that imports azure.*."""
