"""Learning where the rows are: batches on Spark and Dask clusters."""

from streambayes.distributed._dask import Dask
from streambayes.distributed._shards import ClusterError, ClusterShards
from streambayes.distributed._spark import Spark
from streambayes.distributed._streaming import spark_stream

__all__ = ["ClusterError", "ClusterShards", "Dask", "Spark", "spark_stream"]
