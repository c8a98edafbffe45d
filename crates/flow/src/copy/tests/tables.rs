//! Single facts about the copy of a partition.
