"""Real traffic: reading request traces, replaying prefix caches, and the request classes that stand for them.

source     bytes of a trace: packed or not, file, folder or standard input, with checksum and progress
formats    the formats we know; recognise tells them apart
readers    one module per family of formats; each yields blocks of rows
cleaning   what is wrong or odd about rows, counted, with line numbers
trace      the result: parallel columns in order of time
replay     stack distances of block caches in one pass (with slot_bits and inversions)
caching    hits of every request under capacities, instances and time to live
arrivals   rate, variability, daily profile
classes    few classes with the same means and percentiles as the requests
importer   from a trace to a workload
"""
