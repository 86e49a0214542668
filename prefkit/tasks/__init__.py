"""What is asked: `base.py` says what a task is, and each task family has one file."""
