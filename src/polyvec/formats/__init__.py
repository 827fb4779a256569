"""Bytes to Collection and back, one format a file. Dropping a module with a ``FORMAT`` into this folder adds it."""

from __future__ import annotations

from polyvec.core.options import near as near
from polyvec.formats.detection import Detection as Detection
from polyvec.formats.detection import detect as detect
from polyvec.formats.detection import hinted as hinted
from polyvec.formats.detection import readings as readings
from polyvec.formats.detection import refuse_foreign as refuse_foreign
from polyvec.formats.discovery import all_formats as all_formats
from polyvec.formats.discovery import find_format as find_format
from polyvec.formats.discovery import register_format as register_format
from polyvec.formats.discovery import registered as registered
from polyvec.formats.opening import check_alike as check_alike
from polyvec.formats.opening import open as open
from polyvec.formats.opening import open_many as open_many
from polyvec.formats.opening import reading_options as reading_options
from polyvec.formats.opening import settled as settled
