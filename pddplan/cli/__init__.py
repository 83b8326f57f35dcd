"""The command line: parse, call ``pddplan.api`` (or the package asked for), render. Nothing is computed here.

app      the table of commands, imported only when called
main     runs a command; turns errors into messages and exit codes
options  options that several commands share
"""
