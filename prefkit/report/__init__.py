"""Who reads it: the run's report as a page and as Markdown, and the mirror of its metrics in Weights & Biases."""
