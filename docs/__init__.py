"""The documentation: Markdown pages, and the scripts of the site in `docs.scripts`."""
