#!/bin/sh
# Make configure and Makefile.in from their sources; needed once after a clone.
set -e
cd "$(dirname "$0")"
mkdir -p config
exec autoreconf --install --force
