"""pddplan: capacity planning for LLM serving split over chips and datacenters."""

__version__ = "0.1.0"
