"""Device profiles: the answers of an NNAPI device, recorded once and reproduced on any host."""
