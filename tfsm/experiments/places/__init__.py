"""Places where work can be done: pools of workers that know nothing of what they work on."""
