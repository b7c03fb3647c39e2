"""A report as one page, which needs nothing but itself."""

from __future__ import annotations

from tfsm.experiments.report.page.build import page

__all__ = ["page"]
