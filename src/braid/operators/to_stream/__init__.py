"""ISTREAM, DSTREAM and RSTREAM: streams made of relations."""
