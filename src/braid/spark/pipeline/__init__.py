"""The stateless parts of a Spark pipeline: ingest, envelopes, routing, emit."""
