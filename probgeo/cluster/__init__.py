"""Jobs of many geodesics, in shards on disk: by one machine, a Dask cluster or a batch system."""

from probgeo.cluster.cost import Cost, estimate
from probgeo.cluster.job import gather
from probgeo.cluster.workers import Distances, distance_matrix, map_pairs

__all__ = ["Cost", "Distances", "distance_matrix", "estimate", "gather", "map_pairs"]
