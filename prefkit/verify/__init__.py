"""Is an answer right: verdicts by execution.

verdict.py     Status and Verdict
extract.py     the query in a model's free text
compare.py     are two results the same (sql-compare/1)
gold_text.py   a gold's ORDER BY: which columns hold its keys, and the query that fetches those that are not selected
gold.py        is a gold fit to judge by
sql.py         SqlCheck, and how one is judged
cache.py       verdicts kept in an SQLite file
scheduler.py   many checks over the worker pool
lines.py       `prefkit verify FILE.jsonl`
"""
