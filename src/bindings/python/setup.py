"""Build the package against the libflux that pkg-config finds:

PKG_CONFIG_PATH=PREFIX/lib/pkgconfig pip install src/bindings/python
"""

import os
import sys

from setuptools import setup

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from build_libflux import pkg_config  # noqa: E402

setup(
    version=pkg_config("--modversion")[0],
    cffi_modules=["build_libflux.py:installed_builder"],
)
