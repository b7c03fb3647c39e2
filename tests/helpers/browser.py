"""A real browser for the tests of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next((path for name in NAMES if (path := shutil.which(name))), None)

needs_browser = pytest.mark.skipif(
    BROWSER is None or find_spec("playwright") is None, reason="needs playwright, and Chromium or Chrome"
)

WIDE = {"width": 1200, "height": 900}
PHONE = {"width": 360, "height": 740}

# The background of a text is the nearest one that is not transparent.
CONTRASTS = """() => {
  const numbers = color => color.match(/[\\d.]+/g).map(Number);
  const luminance = rgb => rgb.slice(0, 3).map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const color = numbers(getComputedStyle(e).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const contrasts = [];
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    const [a, b] = [numbers(getComputedStyle(element).color), behind(element)].map(luminance);
    contrasts.push([element.tagName, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)]);
  }
  return contrasts;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start a browser."""
    from playwright.sync_api import sync_playwright

    # The sandbox does not work for root, as which containers run tests.
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as started:
        launched = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"] if root else [])
        yield launched
        launched.close()
