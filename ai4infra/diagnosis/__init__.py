"""Why the GPUs wait: logs and samples are read, summed up over time, and judged.

``samples`` has the records, ``dmon``, ``smi_csv``, ``iostat``, ``sar`` and ``sysstat_json`` read
what tools print, ``series`` sums up in constant memory, ``verdict`` decides. All of that is pure;
``files`` opens files.
"""
