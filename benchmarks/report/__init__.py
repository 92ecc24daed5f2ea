"""The Benchmarks page: one module a section, each with `run`, `text` and `draw`.

`run` measures and returns what JSON can hold; `text` and `draw` make Markdown and pictures of that
alone, so that the page can be written again without measuring.
"""
