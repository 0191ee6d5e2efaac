"""The only place that writes files: scratch of a run, and the staged output folder.

- `scratch`: columns of a run on disk, mapped instead of held in memory.
- `output`: the output folder, staged beside its place and renamed into it.
- `parts`: Parquet parts whose borders depend on rows and bytes alone.
"""
