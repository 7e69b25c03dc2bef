"""What this machine tells while it runs: samples on one clock, what stands behind a path, a feed.

``counters`` turns two readings of the kernel's counters into samples and is pure; ``gpus`` asks
NVML, ``machine`` reads ``/proc`` and ``/sys``, ``sampler`` puts them on one clock, ``paths``
gathers what ``diagnosis.behind`` judges, ``probe`` reads files and measures.
"""
