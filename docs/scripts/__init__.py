"""Scripts of the documentation site: hooks, generated pages, and the pictures and films of its pages."""
