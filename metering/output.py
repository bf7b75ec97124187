"""Output that came before a model declined, which decides whether a refusal is billed.

The counts do not tell: ``output_tokens`` may be 1 without output. The content does. A block carries
output if any of its values is not empty: text, thinking, a signature, the name or the input of a
tool. Blocks of type ``fallback`` divide the content: blocks before the first one are from the
requested model, those after it from the next one."""

from wire.block import Block
from wire.content import Content


def find_outputs(content: Content, parts: int) -> list[bool]:
    """Return for each of the ``parts`` of a response whether it carries output.

    A part whose beginning is not found, because the stream is too long to be read to its end, counts as
    one with output, since nearly all responses have some."""
    outputs = [False]
    for block in content.blocks:
        if block.is_fallback:
            outputs.append(False)
        elif not outputs[-1]:
            outputs[-1] = _carries_output(block)
    return (outputs + [content.is_beginning] * parts)[:parts]


def _carries_output(block: Block) -> bool:
    values = (value for name, value in block.fields.items() if name != "type")
    return bool(block.parts or block.citations) or any(values)
