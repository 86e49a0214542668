"""Is an answer right: verdicts by execution.

What all verifiers share
    verdict.py      Status, Judgement and Verdict
    verifier.py     what a verifier is, and which there are
    scheduler.py    many checks over the worker pool; cache.py keeps verdicts in an SQLite file
    lines.py        `prefkit verify FILE.jsonl`; line_fields.py: fields that its lines have in common
    answer_text.py  thoughts and fences in a model's free text; fences.py the same for program text; trust.py: executed or a model's opinion

sql: a query, by its rows on every data instance
    sql.py          SqlCheck, and how one is judged; sql_verifier.py: how the scheduler drives it; query.py: a query to look at
    extract.py      the query in free text; compare.py: are two results the same (sql-compare/1); databases.py: the files
    gold.py         is a gold fit to judge by; gold_text.py: what its text says about the order of its rows
    sql_engines.py  SQLite, DuckDB, PostgreSQL: all that differs between them; sql_places.py: where their databases are
    sql_jobs.py     what workers are asked; sql_dialects.py, sql_values.py: texts and values of DuckDB and PostgreSQL

python, program: code by returned values, by tests, by what it prints
    python.py, python_cases.py, python_tests.py, python_files.py, values_compare.py, value_text.py, code_text.py
    program.py, output_compare.py

math: the final answer of a text
    math.py, math_text.py

tool_calls: calls by their arguments, or by what they did in a simulator
    tool_calls.py, calls.py, call_match.py, json_text.py, json_schema.py, budget.py
    stateful.py, simulator.py, end_state.py; orders_simulator.py is an example to copy

rules: a document by the rules of a business
    rules.py, rules_file.py, rules_checks.py, rules_terms.py, rules_tables.py, rules_dates.py, rules_steps.py
    arithmetic.py, paths.py, yaml_lines.py

judge: a model's opinion, where nothing can be executed
    judge.py, judge_rubric.py, judge_prompt.py, judge_scorer.py, judge_endpoint.py
"""
