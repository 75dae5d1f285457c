"""The guard for agents that speak the Model Context Protocol: a server of its tools, and a gateway before others."""
