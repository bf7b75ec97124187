"""Queries that take what they can: processor time, memory, disk."""

# ruff: noqa: S608 - SQL made of text is what is tried here

LONG = (
    "(select s from (with recursive d(s) as (select 'xxxxxxxxxxxxxxxx' union all select s || s from d"
    " where length(s) < 7000000) select s from d order by length(s) desc limit 1))"
)


def columns(expression, count=99):
    return ", ".join(expression.format(n=n) for n in range(count))


# No time limit interrupts these: each is one step of SQLite, or none of it at all.
ENDLESS_STEPS = {
    "the check of the text": "/**/" + " " * 40_000 + "x",
    "glob": f"select s glob '*{'[a-z]' * 39}1', s glob '*{'[^b]' * 49}1' from {LONG}",
    "instr": f"with l(s) as (select s from {LONG}) select instr(s, substr(s, 1, 3000000) || 'b') from l",
    "like": f"select s like '%{'x' * 198}b', s like '%{'_' * 198}b' from {LONG}",
    "printf": "select length(printf('%.2000000000c', 'x')), length(printf('%2000000000d', 1))",
}

# What our own judge of texts took seconds for; SQLite does not.
LONG_TEXTS = {
    "many names": "with " + "a as(1)," * 3_600 + "b as(select 1) select * from b",
    "many parentheses": "select " + "(a)" * 8_500,
    "deep parentheses": "select " + "(" * 9_000 + "1" + ")" * 9_000,
}

HUNGRY = {
    "names within names": "with c0(x) as (select 1), "
    + ", ".join(
        f"c{n}(x) as (select (select x from c{n - 1}) + (select x from c{n - 1}))"
        for n in range(1, 30)
    )
    + " select * from c29",
    "columns within columns": f"select {'+'.join('d' * 40)} from (select {'+'.join('c' * 40)} as d"
    f" from (select {'+'.join('b' * 40)} as c from (select {'+'.join('a' * 40)} as b from"
    f" (select {'+'.join(['id'] * 40)} as a from usage))))",
    "copies": f"select {columns('s || {n}')} from {LONG}",
    "blobs": f"select {columns('b')} from (select cast(s as blob) as b from {LONG})",
    "texts": f"select {columns('s')} from {LONG}",
    "hex": f"select hex(s), hex(s || 1), hex(s || 2), upper(s), quote(s) from {LONG}",
    "wide characters": f"select {columns('t')} from (select '😀' || s as t from {LONG})",
    "arguments": f"select length(max({columns('s || {n}')})) from {LONG}",
    "groups": f"select {columns('group_concat(s || {n})', 40)} from {LONG}, json_each('[1, 2, 3]')",
    "json": f"select json_array({columns('s')}) from {LONG}",
    "doubling": "with recursive d(s) as (select 'x' union all select s || s from d) select s from d",
}

UNION = (
    "with recursive n(i, t) as (select 1, hex('padding') union select i + 1, hex(i || 'padding')"
    " || printf('%0500d', i) from n) select count(*) from n"
)
SORT = (
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000000)"
    " select count(*) from (select printf('%0500d', i * 7919 % 5000000) as t from n order by t)"
)
