"""The domains that ship with tfsm, as plugins."""
