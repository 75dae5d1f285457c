"""Where a picture's own bytes end, so that another file behind them is noticed. Nothing is decoded."""

from __future__ import annotations


def bytes_after_end(data: bytes, kind: str) -> int:
    """How many bytes stand after the picture's own end; 0 where the format does not say where it ends."""
    finders = {"PNG": _png_end, "JPEG": _jpeg_end, "GIF": _gif_end, "WEBP": _riff_end, "BMP": _bmp_end}
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
    place = 13 + _colour_table(data[10])
    while place < len(data):
        block = data[place]
        if block == 0x3B:
            return place + 1
        if block == 0x2C and place + 10 <= len(data):
            place += 10 + _colour_table(data[place + 9]) + 1
        elif block == 0x21:
            place += 2
        else:
            return len(data)
        while place < len(data) and data[place]:
            place += 1 + data[place]
        place += 1
    return len(data)


def _colour_table(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _riff_end(data: bytes) -> int:
    return 8 + int.from_bytes(data[4:8], "little")


def _bmp_end(data: bytes) -> int:
    return int.from_bytes(data[2:6], "little") or len(data)
