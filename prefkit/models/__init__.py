"""Models: load (embedded, Hugging Face, quantised, adapters) and generate."""
