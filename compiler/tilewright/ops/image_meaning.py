"""The NumPy meaning of ImageDecoder: files to arrays of colours, independent of the loop programs."""

from __future__ import annotations

import re
import struct
import zlib

import numpy as np

from tilewright.errors import RunError
from tilewright.faults import PICTURE_DAMAGE, PICTURE_FORMAT, PICTURE_KIND, PICTURE_SIZE, REASONS

# Rec. 601 luma in units of 1/65536, rounded, as Pillow converts to grey.
LUMA = (19595, 38470, 7471)

_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of PNG's kinds of pixels


def _fault(reason: int) -> RunError:
    return RunError(REASONS[reason])


def decoded(data: bytes, height: int, width: int) -> np.ndarray:
    """The picture as u8 [height, width, 3], red first. Raises RunError with a reason of `faults`."""
    readers = {b"BM": _bmp, b"P[0-9]": _pnm, rb"II\*\0|MM\0\*": _tiff, rb"\x89PNG\r\n\x1a\n": _png}
    for magic, read in readers.items():
        if re.match(magic, data, re.DOTALL):
            try:
                return read(data, height, width)
            except (struct.error, zlib.error, IndexError, ValueError, KeyError) as error:
                raise _fault(PICTURE_DAMAGE) from error
    raise _fault(PICTURE_FORMAT)


def in_format(colours: np.ndarray, pixel_format: str) -> np.ndarray:
    """RGB as it is, BGR the other way round, Grayscale by Rec. 601 weights in units of 1/65536."""
    if pixel_format == "RGB":
        return colours
    if pixel_format == "BGR":
        return np.ascontiguousarray(colours[..., ::-1])
    luma = colours.astype(np.int64) @ np.array(LUMA)
    return np.asarray((luma + (1 << 15)) >> 16, np.uint8)[..., np.newaxis]


def _check_size(found: tuple[int, int], height: int, width: int) -> None:
    if found != (height, width):
        raise _fault(PICTURE_SIZE)


def _unpacked(rows: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Samples of up to 8 bits, the first in the highest ones: [rows, bytes] -> [rows, count]."""
    single = np.unpackbits(rows, axis=1)[:, : count * bits].reshape(len(rows), count, bits)
    return np.packbits(single, axis=2)[..., 0] >> (8 - bits)


def _grey(samples: np.ndarray, bits: int) -> np.ndarray:
    scaled = (samples.astype(np.int64) * 255 // (2**bits - 1)).astype(np.uint8)
    return np.repeat(scaled[..., np.newaxis], 3, axis=2)


def _rows(data: bytes, start: int, stride: int, height: int) -> np.ndarray:
    if start + stride * height > len(data):
        raise _fault(PICTURE_DAMAGE)
    return np.frombuffer(data, np.uint8, stride * height, start).reshape(height, stride)


def _bmp(data: bytes, height: int, width: int) -> np.ndarray:
    start, header, found_width, found_height, _, depth, compression = struct.unpack_from(
        "<I iii HH I", data, 10
    )
    masks = (
        compression == 3 and depth == 32 and struct.unpack_from("<3I", data, 54) == (0xFF0000, 0xFF00, 0xFF)
    )
    if header < 40 or depth not in (1, 4, 8, 24, 32) or (compression and not masks):
        raise _fault(PICTURE_KIND)
    _check_size((abs(found_height), found_width), height, width)
    rows = _rows(data, start, (depth * width + 31) // 32 * 4, height)
    if found_height > 0:
        rows = rows[::-1]
    if depth >= 24:
        return rows[:, : width * depth // 8].reshape(height, width, depth // 8)[..., 2::-1].copy()
    palette = np.frombuffer(data[14 + header : start], np.uint8)
    entries = palette[: len(palette) // 4 * 4].reshape(-1, 4)
    return np.take(entries, _unpacked(rows, depth, width), axis=0)[..., 2::-1].copy()


def _pnm(data: bytes, height: int, width: int) -> np.ndarray:
    kind = data[1] - ord("0")
    if kind not in (4, 5, 6):
        raise _fault(PICTURE_KIND)
    field = rb"(?:\s|#[^\n]*(?:\n|$))*(\d+)"
    match = re.compile(field * (2 if kind == 4 else 3)).match(data, 2)
    if match is None:
        raise _fault(PICTURE_DAMAGE)
    found_width, found_height, *levels = map(int, match.groups())
    if levels not in ([], [255]):
        raise _fault(PICTURE_KIND)
    _check_size((found_height, found_width), height, width)
    stride = {4: (width + 7) // 8, 5: width, 6: 3 * width}[kind]
    rows = _rows(data, match.end() + 1, stride, height)
    if kind == 6:
        return rows.reshape(height, width, 3).copy()
    return _grey(1 - _unpacked(rows, 1, width), 1) if kind == 4 else _grey(rows, 8)


def _tiff(data: bytes, height: int, width: int) -> np.ndarray:
    order = "<" if data[:1] == b"I" else ">"
    fields: dict[int, tuple[int, int]] = {}  # by tag: place and size of the first value
    (directory,) = struct.unpack_from(f"{order}I", data, 4)
    for number in range(struct.unpack_from(f"{order}H", data, directory)[0]):
        at = directory + 2 + 12 * number
        tag_, type, count = struct.unpack_from(f"{order}HHI", data, at)
        size = 2 if type == 3 else 4
        place = at + 8 if count * size <= 4 else struct.unpack_from(f"{order}I", data, at + 8)[0]
        fields[tag_] = place, size

    def element(number: int, index: int) -> int:
        place, size = fields[number]
        return int(struct.unpack_from(f"{order}{'H' if size == 2 else 'I'}", data, place + index * size)[0])

    def tag(number: int, absent: int) -> int:
        return element(number, 0) if number in fields else absent

    bits, photometric, samples = tag(258, 1), tag(262, 0), tag(277, 1)
    ones = [tag(number, 1) for number in (259, 266, 274, 284)]
    single = photometric <= 1 and bits in (1, 4, 8)
    colours = photometric == 2 and bits == 8 and samples >= 3
    palette = photometric == 3 and bits in (1, 2, 4, 8) and samples == 1
    if ones != [1] * 4 or tag(322, 0) or not (single or colours or palette):
        raise _fault(PICTURE_KIND)
    _check_size((tag(257, 0), tag(256, 0)), height, width)
    stride, strip = (width * samples * bits + 7) // 8, min(tag(278, height), height)
    starts = [element(273, r // strip) + r % strip * stride for r in range(height)]
    rows = np.concatenate([_rows(data, start, stride, 1) for start in starts])
    values = _unpacked(rows, bits, width * samples).reshape(height, width, samples)
    if colours:
        return values[..., :3].copy()
    if palette:
        table = np.frombuffer(data, f"{order}u2", 3 * 2**bits, fields[320][0]).reshape(3, 2**bits) >> 8
        return np.take(table.T.astype(np.uint8), values[..., 0], axis=0)
    grey = _grey(values[..., 0], bits)
    return 255 - grey if photometric == 0 else grey


def _png(data: bytes, height: int, width: int) -> np.ndarray:
    name, found_width, found_height, bits, kind, _, _, interlaced = struct.unpack_from(">4s II 5B", data, 12)
    allowed = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
    if name != b"IHDR" or bits not in allowed.get(kind, ()):
        raise _fault(PICTURE_DAMAGE)
    if interlaced:
        raise _fault(PICTURE_KIND)
    _check_size((found_height, found_width), height, width)
    chunks: dict[bytes, bytes] = {}
    at = 8
    while b"IEND" not in chunks:
        size, name = struct.unpack_from(">I4s", data, at)
        chunks[name] = chunks.get(name, b"") + data[at + 8 : at + 8 + size]
        at += 12 + size
    samples = _SAMPLES[kind]
    stride, pixel = (width * samples * bits + 7) // 8, -(-samples * bits // 8)
    packed = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + stride)
    rows = _unfiltered(packed, pixel)
    if bits == 16:
        rows, bits = rows[:, ::2], 8
    values = _unpacked(rows, bits, width * samples).reshape(height, width, samples)
    if kind == 3:
        return np.take(np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3), values[..., 0], axis=0)
    return values[..., :3].copy() if kind in (2, 6) else _grey(values[..., 0], bits)


def _unfiltered(packed: np.ndarray, pixel: int) -> np.ndarray:
    """Rows behind their filter's number -> rows, [height, stride]; pixel: bytes to the left neighbour."""
    rows = np.zeros((len(packed) + 1, packed.shape[1] - 1 + pixel), np.uint8)
    for r, (filter_, *values) in enumerate(packed.tolist(), 1):
        if filter_ > 4:
            raise _fault(PICTURE_DAMAGE)
        above, row = rows[r - 1].tolist(), [0] * pixel
        for k, value in enumerate(values, pixel):
            row.append((value + _prediction(filter_, row[k - pixel], above[k], above[k - pixel])) % 256)
        rows[r] = row
    return rows[1:, pixel:]


def _prediction(filter_: int, left: int, above: int, corner: int) -> int:
    estimate = left + above - corner
    paeth = min((left, above, corner), key=lambda value: abs(estimate - value))
    return (0, left, above, (left + above) // 2, paeth)[filter_]
