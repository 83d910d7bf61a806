"""Windows over streams, and buffers that several windows share."""
