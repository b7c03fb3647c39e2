"""Reports on studies: tables, figures with descriptions in text, a JSON document and an HTML page.

Nothing here imports TensorFlow. Modules that draw import matplotlib, and are imported only when needed.
"""
