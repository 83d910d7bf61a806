"""The operator families of the shared plan, one package each."""
