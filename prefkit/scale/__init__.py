"""Past one process: model work runs in worker processes, one a GPU or one a core; later, past one machine."""
