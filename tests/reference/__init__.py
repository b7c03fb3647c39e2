"""Slow twins of the package's numerics, in float64 NumPy and plain Python, written from the formulas.

They share no code with the package and import neither TensorFlow nor Keras.
"""
