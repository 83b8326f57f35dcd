"""Questions that take many plans or many evaluations: compare, draw the bathtub, ask how sure, grow, share a fleet.

Each study takes the records of ``sizing.Inputs``, calls the optimiser and the one evaluator through ``pddplan.api``,
and hands its result as records to ``report``.
"""
