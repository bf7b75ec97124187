"""Tool calls beside their results, which are in a later message, or later in the same one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dashboard.call.blocks.view import Block


def join_results(groups: Sequence[tuple[Block, ...]]) -> list[tuple[Block, ...]]:
    """Return the blocks of messages, with each result taken from its place to that of its call. A
    result whose call is not there stays."""
    results: dict[str, Block] = {}
    called: set[str] = set()
    for blocks in groups:
        for block in blocks:
            if block.kind == "call" and block.id:
                called.add(block.id)
            elif block.kind == "result" and block.id in called:
                results.setdefault(block.id, block)
    taken = {id(block) for block in results.values()}
    return [
        tuple(_attach(block, results) for block in blocks if id(block) not in taken)
        for blocks in groups
    ]


def _attach(block: Block, results: Mapping[str, Block]) -> Block:
    if block.kind != "call" or block.id not in results:
        return block
    return replace(block, result=results[block.id])
