"""Makes src/streambayes/datasets/electricity.npz from the wheel of scikit-multiflow 0.4.1.

    python tools/make_electricity.py [WHEEL]

Without a wheel, pip downloads it. ``elec.csv`` in it has Elec2 scaled to [0, 1] and rounded to six decimals, with
missing cells filled with the mean of their column. The original values are whole numbers, so

    raw = low + scaled * (high - low), rounded to the nearest whole number,

has them back, with low and high the range of the original column: the rounding is off by at most
0.0000005 * (high - low), which is 0.24 for the widest column. A cell is missing where it has the fill value of its column. That of
``vicdemand`` and ``transfer`` is no scaled whole number, so nothing else has it. That of ``vicprice`` is also the scaled
1669; there a cell is missing if ``vicdemand`` of its row is missing as well.
"""

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

REQUIREMENT = "scikit-multiflow==0.4.1"
MEMBER = "skmultiflow/data/datasets/elec.csv"
SHA256 = "ebdfe5480ae25a43a7d054286135e3a9484697a2850d5158a333b1578c28bb97"
OUTPUT = Path(__file__).parents[1] / "src" / "streambayes" / "datasets" / "electricity.npz"

# position in the file, low, high, fill value, type; cells that are missing get the type's least value
COLUMNS = {
    "nswprice": (1, 0, 33308, None, np.int32),
    "nswdemand": (2, 4274, 10996, None, np.int16),
    "vicprice": (3, 0, 481405, 0.003467, np.int32),
    "vicdemand": (4, 3375, 7237, 0.422915, np.int16),
    "transfer": (5, -946, 1334, 0.500526, np.int16),
}
NUM_MISSING = {
    "nswprice": 0,
    "nswdemand": 0,
    "vicprice": 17424,
    "vicdemand": 17425,
    "transfer": 338,
}


def download(folder: str) -> Path:
    """The wheel; it is for Python 3.7 on Linux, but only its data is used."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    command += ["--only-binary", ":all:", "--python-version", "3.7"]
    command += ["--platform", "manylinux1_x86_64", REQUIREMENT]
    subprocess.run(command, check=True)  # noqa: S603  # a fixed command
    return next(Path(folder).glob("*.whl"))


def read(wheel: Path) -> np.ndarray:
    """The rows of the scaled file."""
    content = zipfile.ZipFile(wheel).read(MEMBER)
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256:
        message = f"{wheel}: {MEMBER} has the SHA-256 {digest}, expected {SHA256}"
        raise ValueError(message)
    return np.loadtxt(io.BytesIO(content), delimiter=",", skiprows=1)


def original(scaled: np.ndarray) -> dict[str, np.ndarray]:
    """The original whole numbers of each column, its least possible value where a cell is missing."""
    filled = {
        name: np.zeros(len(scaled), bool) if fill is None else np.abs(scaled[:, at] - fill) < 1e-9
        for name, (at, _, _, fill, _) in COLUMNS.items()
    }
    filled["vicprice"] &= filled["vicdemand"]
    columns = {}
    for name, (at, low, high, _, dtype) in COLUMNS.items():
        there = ~filled[name]
        whole = np.rint(low + scaled[there, at] * (high - low))
        again = np.round((whole - low) / (high - low), 6)
        if np.abs(again - scaled[there, at]).max() > 1e-9:
            message = f"{name}: the original values cannot be recovered"
            raise ValueError(message)
        if (~there).sum() != NUM_MISSING[name] or whole.min() != low or whole.max() != high:
            message = f"{name}: the range or the number of missing cells is not what it should be"
            raise ValueError(message)
        columns[name] = np.full(len(scaled), np.iinfo(dtype).min, dtype)
        columns[name][there] = whole
    return columns


def main() -> None:
    """Write the file and say what is in it."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(sys.argv[1]) if len(sys.argv) > 1 else download(folder)
        scaled = read(wheel)
    if not np.array_equal(np.rint(47 * scaled[:, 0]), np.arange(len(scaled)) % 48):
        message = "a day without 48 half-hours in order"
        raise ValueError(message)
    columns = original(scaled)
    columns["up"] = scaled[:, 6].astype(bool)
    np.savez_compressed(OUTPUT, **columns)
    print(f"{OUTPUT}: {len(scaled):,} rows, {OUTPUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
