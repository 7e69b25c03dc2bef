"""BlobFuse2 mounts as values: disks, configurations, their checks, units. Nothing is started."""
