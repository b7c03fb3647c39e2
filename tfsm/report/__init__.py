"""Reports of studies: tables, figures, their descriptions in words, and one page with all of them.

Nothing here imports TensorFlow. Modules that draw import matplotlib, and are imported only when needed.
"""
