"""What `torch.distributed.run` is made of.

`_agent` starts the processes of one machine and starts them again when one fails; `_children` are these processes,
`_logs` what they write, and `_meeting` is how the launchers of several machines find each other and hear of failures.
"""
