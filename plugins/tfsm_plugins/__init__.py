"""The operators, selection schemes and observers that ship with tfsm, as plugins."""
