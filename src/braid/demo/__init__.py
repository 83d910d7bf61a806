"""`make demo`: a generated stock stream, 1,000 standing queries, local Spark, what matched."""
