"""Reports of partitionings: as data, as HTML, and for Model Explorer and Netron."""
