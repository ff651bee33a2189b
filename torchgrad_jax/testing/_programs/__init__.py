"""Two runs of a training program side by side: where they part, and by how much a rounding moves them.

`_observer` watches each run from inside its own process. Here stands what starts these processes
(`runs`), judges what they saw (`judge`, `locate`), and shows it (`text`, `page`); `command` is
`python -m torchgrad_jax compare`.
"""
