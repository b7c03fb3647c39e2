"""Reports of studies: tables, figures in words and pictures, and a page of them all.

Nothing in here imports TensorFlow; what draws imports matplotlib, and is imported when it is needed.
"""
