"""A folder to put on the path of processes that an aliased program starts."""
