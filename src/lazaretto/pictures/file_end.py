"""Finds the end of a picture's own bytes, so that another file behind them is noticed. Nothing is decoded."""

from __future__ import annotations

import re

from lazaretto.picture_worker.file_texts import colour_table


def bytes_after_end(data: bytes, kind: str) -> int:
    """How many bytes stand after the picture's own end; 0 where the format does not say where it ends."""
    finders = {"PNG": _png_end, "JPEG": _jpeg_end, "MPO": _mpo_end, "GIF": _gif_end, "WEBP": _webp_end, "BMP": _bmp_end}
    finder = finders.get(kind)
    end = finder(data) if finder else len(data)
    return max(0, len(data) - end)


def _png_end(data: bytes) -> int:
    place = 8
    while place + 12 <= len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        kind = data[place + 4 : place + 8]
        place += 12 + length
        if kind == b"IEND":
            return min(place, len(data))
    return len(data)


def _jpeg_end(data: bytes) -> int:
    place = 2
    while place + 4 <= len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xD9:
            return place + 2
        if marker == 0xFF:  # filler
            place += 1
            continue
        place += 2 if 0xD0 <= marker <= 0xD7 else 2 + int.from_bytes(data[place + 2 : place + 4], "big")
        if marker == 0xDA:  # entropy-coded data run until a marker that is neither stuffing nor a restart
            place = _after_scan(data, place)
    return len(data)


_NUMBER_OF_PICTURES = re.compile(rb"\x01\xb0\x04\0\x01\0\0\0(.)\0\0\0|\xb0\x01\0\x04\0\0\0\x01\0\0\0(.)", re.DOTALL)


def _mpo_end(data: bytes) -> int:
    """The end of the last of several JPEGs, as many as the first one names."""
    index = data.find(b"MPF\0")
    found = _NUMBER_OF_PICTURES.search(data, index, index + 512) if index >= 0 else None
    end = _jpeg_end(data)
    for _ in range((found[1] or found[2])[0] - 1 if found else 0):
        start = data.find(b"\xff\xd8\xff", end)
        if start < 0 or data[end:start].strip(b"\0"):
            break
        end = start + _jpeg_end(data[start:])
    return end


def _after_scan(data: bytes, place: int) -> int:
    while True:
        place = data.find(b"\xff", place)
        if place < 0 or place + 1 >= len(data):
            return len(data)
        if data[place + 1] == 0 or 0xD0 <= data[place + 1] <= 0xD7:
            place += 2
        else:
            return place


def _gif_end(data: bytes) -> int:
    if len(data) < 13:
        return len(data)
    place = 13 + colour_table(data[10])
    while place < len(data):
        block = data[place]
        if block == 0x3B:
            return place + 1
        if block == 0x2C and place + 10 <= len(data):
            place += 10 + colour_table(data[place + 9]) + 1
        elif block == 0x21:
            place += 2
        else:
            return len(data)
        while place < len(data) and data[place]:
            place += 1 + data[place]
        place += 1
    return len(data)


_WEBP_CHUNKS = frozenset((b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ANIM", b"ANMF", b"ICCP", b"EXIF", b"XMP "))


def _webp_end(data: bytes) -> int:
    """The end after the last chunk that a picture can have: the size in the header is only its writer's claim."""
    place, stop = 12, min(len(data), 8 + int.from_bytes(data[4:8], "little"))
    while place + 8 <= stop and data[place : place + 4] in _WEBP_CHUNKS:
        length = int.from_bytes(data[place + 4 : place + 8], "little")
        place += 8 + length + length % 2
    return min(place, len(data))


_UNCOMPRESSED = (0, 3, 6)  # plain, and with masks for the colours
_MOST_RUNS = 1_000_000


def _bmp_end(data: bytes) -> int:
    """The end after the pixels, or their colour profile: the size in the header is only its writer's claim."""
    if len(data) < 54 or _number(data, 14) < 40:  # the header of OS/2: it has no compression
        wide, high, bits = (int.from_bytes(data[at : at + 2], "little") for at in (18, 20, 24))
        return min(len(data), _number(data, 10) + _rows(wide, high, bits))
    wide, high = (int.from_bytes(data[at : at + 4], "little", signed=True) for at in (18, 22))
    bits, packing = int.from_bytes(data[28:30], "little"), _number(data, 30)
    end = _number(data, 10)
    if packing in _UNCOMPRESSED:
        end += _rows(abs(wide), abs(high), bits)
    elif packing in (1, 2):
        end = _after_runs(data, end, halves=packing == 2)
    else:
        end += _number(data, 34)
    if _number(data, 14) >= 124 and _number(data, 130):
        end = max(end, 14 + _number(data, 126) + _number(data, 130))
    return min(end, len(data))


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _rows(wide: int, high: int, bits: int) -> int:
    """Bytes of the pixels: every row ends on four bytes."""
    return (wide * bits + 31) // 32 * 4 * high


def _after_runs(data: bytes, place: int, *, halves: bool) -> int:
    """After the mark that ends run-length coded pixels; without one, or past so many runs, where the reading stops."""
    for _ in range(_MOST_RUNS):
        if place + 2 > len(data):
            return len(data)
        count, what = data[place], data[place + 1]
        place += 2
        if count == 0 and what == 1:
            return place
        if count == 0 and what == 2:
            place += 2
        elif count == 0 and what > 2:
            literal = (what + 1) // 2 if halves else what
            place += literal + literal % 2
    return place
