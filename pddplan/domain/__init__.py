"""The nouns of the planner: frozen records without behaviour, in base units.

chip      what a chip can do, and where each number comes from
llm       layers of a language model, as far as speed and memory depend on them
workload  request classes, arrivals, promises
sites     datacenters, leased lines, finance settings
plan      pools, lines, paths and shares: a decision
outcome   what the evaluator says of a decision
"""
