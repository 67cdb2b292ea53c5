"""Who holds what: schemes that deal out a data set, and the clients that come of it.

Numbers about a partition are in :mod:`duotone.partition.describe`, its picture is drawn by
:mod:`duotone.partition.picture`.
"""

from duotone.partition.build import build_partition, build_population, resolve_settings
from duotone.partition.partition import Holding, Partition, Population
from duotone.partition.scheme import SCHEMES, PartitionSettings, Scheme, Share

__all__ = [
    "SCHEMES",
    "Holding",
    "Partition",
    "PartitionSettings",
    "Population",
    "Scheme",
    "Share",
    "build_partition",
    "build_population",
    "resolve_settings",
]
