"""Real traffic: reading request traces, replaying prefix caches, and the request classes that stand for them.

source     bytes of a trace: packed or not, file, folder or standard input, with checksum and progress
formats    the formats we know; recognise tells them apart, naming knows what columns are called elsewhere
readers    table_reader, session_readers, servegen: one per family of formats; each yields blocks of rows
cleaning   what is wrong or odd about rows, counted, with line numbers
scratch    rows that need not fit in memory
trace      the result: requests in order of time, read in chunks
replay     stack distances of block caches in one pass (with slot_bits and inversions)
caching    hits of every request under capacities, instances and time to live
arrivals   coarse clocks, other rates; arrival_pattern: rate, variability, daily profile
tally      counts over all requests (with marginals)
classes    few classes with the same averages and percentiles as the requests (with cells and recombine)
importer   from a trace to a workload
"""
