"""Union, SAMETIME, channels, and results on their way to the queries that want them."""
