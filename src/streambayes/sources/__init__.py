"""Where batches come from."""

from streambayes.sources._batches import batches
from streambayes.sources._files import Files
from streambayes.sources._folder import Folder
from streambayes.sources._kafka import KafkaTopic
from streambayes.sources._memory import Batches
from streambayes.sources._redis import RedisStream
from streambayes.sources._source import Chunk, Source
from streambayes.sources._stream import FileBatches, SourceBatches

__all__ = [
    "Batches",
    "Chunk",
    "FileBatches",
    "Files",
    "Folder",
    "KafkaTopic",
    "RedisStream",
    "Source",
    "SourceBatches",
    "batches",
]
