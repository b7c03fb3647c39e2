"""A new plugin package, written out for its author: `tfsm plugins new`."""
