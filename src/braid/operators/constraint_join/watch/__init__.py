"""What a constraint join observes of arrivals, and which constraints it uses."""
