"""Safe mutations as operators of other libraries: pyribs, DEAP and EvoTorch.

Each module needs its library: `tfsm.integrations.ribs` needs `pip install 'tfsm[ribs]'`, and so on. All of them call
`tfsm.functional`: genomes `[P]` are the trainable weights of a Keras model, in the order of `tfsm.flatten`.
"""
