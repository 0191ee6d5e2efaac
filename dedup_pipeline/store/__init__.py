"""The only place that writes files: scratch of a run, and the staged output folder.

- `scratch`: columns of a run on disk, mapped instead of held in memory.
- `output`: the output folder, staged beside its place and renamed into it.
- `seen_files`: saved seen-sets, one checked file each.
- `key_runs`: sorted runs of keys that do not fit into memory.
- `parts`: Parquet parts whose borders depend on rows and bytes alone.
"""
