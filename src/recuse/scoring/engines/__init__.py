"""Where parts of a file are decided about: this process, processes of this machine, or a Dask cluster."""
